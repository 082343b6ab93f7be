/*
 * siblings.c: GPUs that differ from a described one in little more than the number of their SMs.
 *
 * The SMs are those of NVIDIA's specifications of the board (CUDA cores by the cores of an SM); limits and mechanisms
 * are those of the description that is named, of the same compute capability or of one with the same limits in
 * cuda_occupancy.h. tests/gpu/test_gpu.c compares them with that file. None of these was measured.
 */
#include "siblings.h"

const gs_sibling gs_siblings[] = {
    /* Turing, 64 cores an SM */
    {"t4", "Tesla T4", "rtx2080ti", "7.5", 40},
    {"gtx1650", "NVIDIA GeForce GTX 1650", "rtx2080ti", "7.5", 14},
    {"gtx1660ti", "NVIDIA GeForce GTX 1660 Ti", "rtx2080ti", "7.5", 24},
    {"rtx2060", "NVIDIA GeForce RTX 2060", "rtx2080ti", "7.5", 30},
    {"rtx2070", "NVIDIA GeForce RTX 2070", "rtx2080ti", "7.5", 36},
    {"rtx2070-super", "NVIDIA GeForce RTX 2070 SUPER", "rtx2080ti", "7.5", 40},
    {"rtx2080", "NVIDIA GeForce RTX 2080", "rtx2080ti", "7.5", 46},
    {"rtx2080-super", "NVIDIA GeForce RTX 2080 SUPER", "rtx2080ti", "7.5", 48},
    {"titan-rtx", "NVIDIA TITAN RTX", "rtx2080ti", "7.5", 72},
    {"rtx6000", "Quadro RTX 6000", "rtx2080ti", "7.5", 72},
    {"rtx8000", "Quadro RTX 8000", "rtx2080ti", "7.5", 72},
    /* Ampere, 64 cores an SM */
    {"a30", "NVIDIA A30", "a100", "8.0", 56},
    {"a800", "NVIDIA A800", "a100", "8.0", 108},
    /* Ampere, 128 cores an SM */
    {"a2", "NVIDIA A2", "rtx3090", "8.6", 10},
    {"a16", "NVIDIA A16", "rtx3090", "8.6", 10},
    {"a40", "NVIDIA A40", "rtx3090", "8.6", 84},
    {"a2000", "NVIDIA RTX A2000", "rtx3090", "8.6", 26},
    {"a4000", "NVIDIA RTX A4000", "rtx3090", "8.6", 48},
    {"a4500", "NVIDIA RTX A4500", "rtx3090", "8.6", 56},
    {"a5000", "NVIDIA RTX A5000", "rtx3090", "8.6", 64},
    {"a5500", "NVIDIA RTX A5500", "rtx3090", "8.6", 80},
    {"a6000", "NVIDIA RTX A6000", "rtx3090", "8.6", 84},
    {"rtx3050", "NVIDIA GeForce RTX 3050", "rtx3090", "8.6", 20},
    {"rtx3060", "NVIDIA GeForce RTX 3060", "rtx3090", "8.6", 28},
    {"rtx3060ti", "NVIDIA GeForce RTX 3060 Ti", "rtx3090", "8.6", 38},
    {"rtx3070", "NVIDIA GeForce RTX 3070", "rtx3090", "8.6", 46},
    {"rtx3070ti", "NVIDIA GeForce RTX 3070 Ti", "rtx3090", "8.6", 48},
    {"rtx3080", "NVIDIA GeForce RTX 3080", "rtx3090", "8.6", 68},
    {"rtx3080ti", "NVIDIA GeForce RTX 3080 Ti", "rtx3090", "8.6", 80},
    {"rtx3090ti", "NVIDIA GeForce RTX 3090 Ti", "rtx3090", "8.6", 84},
    /* Orin; the driver calls all of them Orin */
    {"orin-32gb", "Orin AGX 32GB", "orin", "8.7", 14},
    {"orin-nx", "Orin NX", "orin", "8.7", 8},
    {"orin-nano", "Orin Nano", "orin", "8.7", 8},
    {"orin-nano-4gb", "Orin Nano 4GB", "orin", "8.7", 4},
    /* Ada */
    {"l40", "NVIDIA L40", "rtx4090", "8.9", 142},
    {"rtx4000-ada", "NVIDIA RTX 4000 Ada Generation", "rtx4090", "8.9", 48},
    {"rtx4500-ada", "NVIDIA RTX 4500 Ada Generation", "rtx4090", "8.9", 60},
    {"rtx5000-ada", "NVIDIA RTX 5000 Ada Generation", "rtx4090", "8.9", 100},
    {"rtx6000-ada", "NVIDIA RTX 6000 Ada Generation", "rtx4090", "8.9", 142},
    {"rtx4060", "NVIDIA GeForce RTX 4060", "rtx4090", "8.9", 24},
    {"rtx4060ti", "NVIDIA GeForce RTX 4060 Ti", "rtx4090", "8.9", 34},
    {"rtx4070", "NVIDIA GeForce RTX 4070", "rtx4090", "8.9", 46},
    {"rtx4070-super", "NVIDIA GeForce RTX 4070 SUPER", "rtx4090", "8.9", 56},
    {"rtx4070ti", "NVIDIA GeForce RTX 4070 Ti", "rtx4090", "8.9", 60},
    {"rtx4070ti-super", "NVIDIA GeForce RTX 4070 Ti SUPER", "rtx4090", "8.9", 66},
    {"rtx4080", "NVIDIA GeForce RTX 4080", "rtx4090", "8.9", 76},
    {"rtx4080-super", "NVIDIA GeForce RTX 4080 SUPER", "rtx4090", "8.9", 80},
    /* Hopper */
    {"h100-nvl", "NVIDIA H100 NVL", "h100-sxm", "9.0", 132},
    {"h800", "NVIDIA H800", "h100-sxm", "9.0", 132},
    {"h800-pcie", "NVIDIA H800 PCIe", "h100-pcie", "9.0", 114},
    /* Blackwell */
    {"gb200", "NVIDIA GB200", "b200", "10.0", 148},
    {"b300", "NVIDIA B300", "b200", "10.3", 148},
    {"gb300", "NVIDIA GB300", "b200", "10.3", 160},
    {"rtx5050", "NVIDIA GeForce RTX 5050", "rtx5090", "12.0", 20},
    {"rtx5060", "NVIDIA GeForce RTX 5060", "rtx5090", "12.0", 30},
    {"rtx5060ti", "NVIDIA GeForce RTX 5060 Ti", "rtx5090", "12.0", 36},
    {"rtx5070", "NVIDIA GeForce RTX 5070", "rtx5090", "12.0", 48},
    {"rtx5070ti", "NVIDIA GeForce RTX 5070 Ti", "rtx5090", "12.0", 70},
    {"rtx5080", "NVIDIA GeForce RTX 5080", "rtx5090", "12.0", 84},
    {"rtx-pro-4000", "NVIDIA RTX PRO 4000 Blackwell", "rtx5090", "12.0", 70},
    {"rtx-pro-4500", "NVIDIA RTX PRO 4500 Blackwell", "rtx5090", "12.0", 82},
    {"rtx-pro-5000", "NVIDIA RTX PRO 5000 Blackwell", "rtx5090", "12.0", 110},
    {"rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell", "rtx5090", "12.0", 188},
    {"gb10", "NVIDIA GB10", "rtx5090", "12.1", 48},
};
const size_t gs_sibling_count = GS_COUNT(gs_siblings);
