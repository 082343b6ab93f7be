/*
 * trace_dispatch.cpp: what a simulator does with gridsmith_dispatch.h, without the simulator: it reads the headers of
 * the traces of examples/accel-sim/traces.py, starts all blocks that can start after each launch, and then ends them.
 *
 *   trace_dispatch FOLDER    with GRIDSMITH_GPU and GRIDSMITH_LOG
 */
#include "gridsmith_dispatch.h"

#include <fstream>
#include <iostream>
#include <string>
#include <vector>

struct kernel {
    int blocks, threads, shared, registers, started;
};

static bool read_header(const std::string &path, kernel &read) {
    std::ifstream file(path);
    int found = 0;
    for (std::string line; std::getline(file, line) && (line.empty() || line[0] == '-');)
        found += std::sscanf(line.c_str(), "-grid dim = (%d,", &read.blocks) == 1 ||
                 std::sscanf(line.c_str(), "-block dim = (%d,", &read.threads) == 1 ||
                 std::sscanf(line.c_str(), "-shmem = %d", &read.shared) == 1 ||
                 std::sscanf(line.c_str(), "-nregs = %d", &read.registers) == 1;
    return found == 4;
}

int main(int argc, char **argv) {
    const std::string folder = argc > 1 ? argv[1] : ".";
    std::ifstream list(folder + "/kernelslist.g");
    std::vector<kernel> kernels;
    std::map<int, unsigned> slots; /* by SM: those in use */
    std::vector<std::pair<unsigned, std::pair<int, unsigned>>> running;
    gs_gpu_limits own = gs_gpu_limits();
    own.sms = 132;
    gridsmith_dispatch &dispatch = gridsmith_dispatch::get(own);
    for (std::string name; std::getline(list, name);) {
        kernel read = kernel();
        if (!read_header(folder + "/" + name, read)) {
            std::cerr << name << ": bad header\n";
            return 2;
        }
        kernels.push_back(read);
        dispatch.launch(unsigned(kernels.size()), read.blocks, read.threads, read.registers, read.shared);
        for (unsigned uid = 1; uid <= kernels.size(); uid++)
            for (int sm; (sm = dispatch.next(uid, 0)) != GS_WAIT;) {
                unsigned slot = slots[sm]++;
                running.push_back(std::make_pair(uid, std::make_pair(sm, slot)));
                dispatch.started(uid, unsigned(kernels[uid - 1].started++), sm, slot, 0);
            }
    }
    for (const auto &block : running)
        dispatch.ended(block.first, block.second.first, block.second.second, 1);
    return kernels.empty() ? 2 : 0;
}
