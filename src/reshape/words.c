/*
 * words.c: the words and instructions that matter for reshaping, and why some of them are refused.
 */
#include "kernels.h"

#include <string.h>

const char gs_reason_clusters[] = "thread-block clusters cannot be split into single blocks";
const char gs_reason_whole_grid[] = "it synchronizes with the whole grid, which never runs at once when it is reshaped";
const char gs_reason_launches[] = "it launches kernels from the device";
static const char asynchronous[] =
    "asynchronous barriers, bulk copies and warpgroup instructions outlive one block of the grid";
static const char hidden_block[] = "it reads the number of its block without blockIdx";

/* A word that ends in * matches all words that start with the rest. */
static const struct {
    const char *word;
    gs_word_use use;
    const char *reason;
} words[] = {
    {"blockIdx", GS_WORD_BLOCK, NULL},
    {"gridDim", GS_WORD_BLOCK, NULL},
    {"__syncthreads", GS_WORD_BARRIER, NULL},
    {"__syncthreads_count", GS_WORD_VOTING, NULL},
    {"__syncthreads_and", GS_WORD_VOTING, NULL},
    {"__syncthreads_or", GS_WORD_VOTING, NULL},
    {"__barrier_sync*", GS_WORD_OPAQUE_BARRIER, NULL},
    {"this_thread_block", GS_WORD_OPAQUE_BARRIER, NULL},
    {"thread_block", GS_WORD_OPAQUE_BARRIER, NULL},
    {"__syncwarp", GS_WORD_WARP, NULL},
    {"__shfl_*", GS_WORD_WARP, NULL},
    {"__ballot_sync", GS_WORD_WARP, NULL},
    {"__any_sync", GS_WORD_WARP, NULL},
    {"__all_sync", GS_WORD_WARP, NULL},
    {"__match_*", GS_WORD_WARP, NULL},
    {"__reduce_*", GS_WORD_WARP, NULL},
    {"tiled_partition", GS_WORD_OPAQUE_WARP, NULL},
    {"__shfl", GS_WORD_OPAQUE_WARP, NULL},
    {"__shfl_up", GS_WORD_OPAQUE_WARP, NULL},
    {"__shfl_down", GS_WORD_OPAQUE_WARP, NULL},
    {"__shfl_xor", GS_WORD_OPAQUE_WARP, NULL},
    {"this_grid", GS_WORD_REFUSED, gs_reason_whole_grid},
    {"grid_group", GS_WORD_REFUSED, gs_reason_whole_grid},
    {"this_multi_grid", GS_WORD_REFUSED, gs_reason_whole_grid},
    {"multi_grid_group", GS_WORD_REFUSED, gs_reason_whole_grid},
    {"GridBarrier", GS_WORD_REFUSED, gs_reason_whole_grid},
    {"GridQueue", GS_WORD_REFUSED, hidden_block},
    {"GridEvenShare", GS_WORD_REFUSED, hidden_block},
    {"group_index", GS_WORD_REFUSED, hidden_block},
    {"block_index", GS_WORD_REFUSED, hidden_block},
    {"dim_blocks", GS_WORD_REFUSED, hidden_block},
    {"__nvvm_read_ptx_sreg_ctaid_*", GS_WORD_REFUSED, hidden_block},
    {"__nvvm_read_ptx_sreg_nctaid_*", GS_WORD_REFUSED, hidden_block},
    {"this_cluster", GS_WORD_REFUSED, gs_reason_clusters},
    {"cluster_group", GS_WORD_REFUSED, gs_reason_clusters},
    {"__cluster_*", GS_WORD_REFUSED, gs_reason_clusters},
    {"__cluster*", GS_WORD_REFUSED, gs_reason_clusters},
    {"__block_size__", GS_WORD_REFUSED, gs_reason_clusters},
    {"map_shared_rank", GS_WORD_REFUSED, gs_reason_clusters},
    {"cluster_launch_control*", GS_WORD_REFUSED, gs_reason_clusters},
    {"cudaLaunchDevice*", GS_WORD_REFUSED, gs_reason_launches},
    {"cudaGetParameterBuffer*", GS_WORD_REFUSED, gs_reason_launches},
    {"cudaLaunchKernel*", GS_WORD_REFUSED, gs_reason_launches},
    {"cudaLaunchCooperativeKernel*", GS_WORD_REFUSED, gs_reason_launches},
    {"cudaGraphLaunch", GS_WORD_REFUSED, gs_reason_launches},
    {"cudaDeviceSynchronize", GS_WORD_REFUSED, gs_reason_launches},
    {"cudaTriggerProgrammaticLaunchCompletion", GS_WORD_REFUSED, gs_reason_launches},
    {"cudaGridDependencySynchronize", GS_WORD_REFUSED, gs_reason_launches},
    {"CUtensorMap", GS_WORD_REFUSED, asynchronous},
    {"__mbarrier_*", GS_WORD_REFUSED, asynchronous},
    {"mbarrier_*", GS_WORD_REFUSED, asynchronous},
    {"cp_async_bulk*", GS_WORD_REFUSED, asynchronous},
    {"wgmma_*", GS_WORD_REFUSED, asynchronous},
    {"tcgen05_*", GS_WORD_REFUSED, asynchronous},
    {"pipeline_shared_state", GS_WORD_REFUSED, asynchronous},
    {"setjmp", GS_WORD_REFUSED, "jumps out of functions cannot be followed"},
};

bool gs_is_word(const char *text, size_t length, const char *word) {
    size_t wanted = strlen(word);
    if (word[wanted - 1] == '*')
        return length >= wanted - 1 && memcmp(text, word, wanted - 1) == 0;
    return length == wanted && memcmp(text, word, length) == 0;
}

gs_word_use gs_word_use_of(const gs_source *source, uint32_t token, const char **reason) {
    const gs_token *found = gs_token_at(source, token);
    const char *text = source->text + found->at;
    /* A quick test: most names start with none of these letters. */
    if (found->kind != GS_TOKEN_NAME || !strchr("_bgtGmdcCwps", text[0]))
        return GS_WORD_PLAIN;
    for (size_t i = 0; i < GS_COUNT(words); i++)
        if (text[0] == words[i].word[0] && gs_is_word(text, found->length, words[i].word)) {
            *reason = words[i].reason;
            return words[i].use;
        }
    return GS_WORD_PLAIN;
}

/* ---- assembly ---- */

const gs_instruction gs_instructions[] = {
    {"ctaid", hidden_block},
    {"gridid", hidden_block},
    {"cluster", gs_reason_clusters},
    {"griddepcontrol", gs_reason_launches},
    {"setmaxnreg", asynchronous},
    {"wgmma", asynchronous},
    {"tcgen05", asynchronous},
    {"mbarrier", asynchronous},
    {"cp.async.bulk", asynchronous},
    {"cp.reduce.async", asynchronous},
    {"tensormap", asynchronous},
    {"barrier.", NULL},
    {"bar.", NULL},
    {"exit", "the assembly ends the thread"},
    {"ret;", "the assembly returns"},
    {NULL, NULL},
};
