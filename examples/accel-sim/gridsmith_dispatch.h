/*
 * gridsmith_dispatch.h: libgridsmith as the block dispatcher of a C++ simulator: GPGPU-Sim, and with it Accel-Sim.
 *
 * The simulator keeps its kernels by a number (uid) and its blocks by the SM and a slot on it. This header translates:
 * a uid to a launch of the dispatcher, an SM and a slot to a block. It knows no type of the simulator.
 *
 *   GRIDSMITH_GPU      dispatch as this GPU does ("h200"). Not set: the simulator dispatches
 *   GRIDSMITH_LIMITS   set: the limits of the simulator's configuration with the mechanisms of that GPU
 *   GRIDSMITH_LOG      a file that gets a line for each block: start or end, uid, block, SM, slot, cycle
 *
 * A kernel that cannot run on that GPU ends the simulation with one line.
 */
#ifndef GRIDSMITH_DISPATCH_H
#define GRIDSMITH_DISPATCH_H

#include <gridsmith/gridsmith.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

class gridsmith_dispatch {
  public:
    /* The log and the dispatcher of this process. `own`: the limits of the simulator. */
    static gridsmith_dispatch &get(const gs_gpu_limits &own = gs_gpu_limits()) {
        static gridsmith_dispatch dispatch(own);
        return dispatch;
    }

    /* Whether blocks are dispatched here. */
    bool is_used() const {
        return m_dispatcher != nullptr;
    }

    bool knows(unsigned uid) const {
        return m_launches.count(uid) != 0;
    }

    /* A kernel arrives. Its stream has let it pass. */
    void launch(unsigned uid, long long blocks, int threads, int registers, long long shared_bytes, int priority = 0,
                int cluster = 0) {
        gs_error error;
        gs_launch_spec spec = gs_launch_spec();
        char name[32];
        std::snprintf(name, sizeof name, "kernel-%u", uid);
        spec.kernel = name;
        spec.blocks = blocks;
        spec.shape = gs_shape_of(threads, registers, shared_bytes);
        spec.priority = priority;
        spec.cluster = cluster;
        int launch = gs_dispatcher_launch(m_dispatcher, &spec, &error);
        if (launch < 0)
            fail(error);
        m_launches[uid] = launch;
    }

    /* It is this late; the SM of the next block of a kernel, or GS_WAIT. */
    int next(unsigned uid, long long cycle) {
        gs_dispatcher_wait_until(m_dispatcher, cycle);
        return gs_dispatcher_next(m_dispatcher, m_launches.at(uid));
    }

    /* A block has started on its SM, which has put it into a slot. */
    void started(unsigned uid, unsigned block, int sm, unsigned slot, long long cycle) {
        if (is_used())
            m_blocks[std::make_pair(sm, slot)] = gs_dispatcher_place(m_dispatcher, m_launches.at(uid), sm);
        note("start", uid, block, sm, slot, cycle);
    }

    void ended(unsigned uid, int sm, unsigned slot, long long cycle) {
        if (is_used())
            gs_dispatcher_release(m_dispatcher, m_blocks.at(std::make_pair(sm, slot)));
        note("end", uid, 0, sm, slot, cycle);
    }

  private:
    explicit gridsmith_dispatch(const gs_gpu_limits &own) {
        const char *name = std::getenv("GRIDSMITH_GPU"), *log = std::getenv("GRIDSMITH_LOG");
        gs_error error;
        if (log && !(m_log = std::fopen(log, "w")))
            std::perror(log), std::exit(4);
        if (!name)
            return;
        m_gpu = gs_gpu_new(name, std::getenv("GRIDSMITH_LIMITS") ? &own : &m_described, &error);
        m_dispatcher = m_gpu ? gs_dispatcher_new(m_gpu, &error) : nullptr;
        if (!m_dispatcher)
            fail(error);
        if (own.sms && gs_gpu_sms(m_gpu) != own.sms) {
            std::fprintf(stderr, "gridsmith: %s has %d SMs, the simulator has %d; set GRIDSMITH_LIMITS=1\n", name,
                         gs_gpu_sms(m_gpu), own.sms);
            std::exit(2);
        }
    }

    ~gridsmith_dispatch() {
        gs_dispatcher_free(m_dispatcher);
        gs_gpu_free(m_gpu);
        if (m_log)
            std::fclose(m_log);
    }

    static void fail(const gs_error &error) {
        char text[700];
        std::fprintf(stderr, "gridsmith: %s\n", gs_error_text(&error, text, sizeof text));
        std::exit(gs_code_exit(error.code));
    }

    void note(const char *what, unsigned uid, unsigned block, int sm, unsigned slot, long long cycle) {
        if (m_log)
            std::fprintf(m_log, "%s %u %u %d %u %lld\n", what, uid, block, sm, slot, cycle);
    }

    gs_gpu_limits m_described = gs_gpu_limits();
    gs_gpu *m_gpu = nullptr;
    gs_dispatcher *m_dispatcher = nullptr;
    std::FILE *m_log = nullptr;
    std::map<unsigned, int> m_launches;
    std::map<std::pair<int, unsigned>, int> m_blocks;
};

#endif
