/*
 * recorder.cu: a second recorder of runs, which shares no code and no method with src/lab/device.
 *
 * A plan (draw.py writes plans) is a list of events. Each event has a slot, a fixed piece of time. The host launches a
 * kernel at the beginning of its slot. A block is told when it is launched at what time it has to trigger its
 * dependents and at what time it has to exit; it watches the clock of the GPU, and nobody talks to it. It notes its SM,
 * its start and its end in the memory of the GPU. When the run is over, the notes say what happened in which slot:
 * which blocks had started by then, and which had not. So nothing is polled while a run is played, and the recorder
 * need not guess how long to wait for a block that does not start. A run in which the host was late is played again.
 *
 * plan.cuh says what a plan looks like, blocks.cuh what the blocks do, playing.cuh what the host does, and writing.cuh
 * how a run is written.
 *
 * Output is gridsmith.run/1. A launch that waits for a trigger is written where the trigger comes, because the format
 * has no events for triggers; so are those behind it in its stream. A run is written up to the exit of a kernel of
 * which not all blocks have started. `--check` only reads the plans. `--times FILE` also writes, for each block, the
 * run, the kernel, the block, the SM, the slot of its launch, and its start and end in ns since the beginning of that
 * slot.
 */
#include "writing.cuh"

/* Reads plans without a GPU, and says how many there are. */
static int check_plans(std::istream &in) {
    int count = 0;
    for (plan p; read_plan(in, p); count++)
        for (const kernel &k : p.kernels)
            if (k.launched < 0 || (!k.memory.empty() && (k.graph < 0 || k.exits >= 0)) ||
                (k.exits >= 0 && k.exits <= k.launched) || k.threads() > 1024)
                fail("is not launched, exits too early or is too large", k.name);
    printf("%d\n", count);
    return 0;
}

int main(int count, char **words) {
    machine m;
    const char *plans = nullptr, *runs = nullptr, *times = nullptr;
    int repeats = 1;
    bool only_check = false;
    for (int i = 1; i < count; i++)
        if (!strcmp(words[i], "--slot") && i + 1 < count)
            m.slot_us = atof(words[++i]);
        else if (!strcmp(words[i], "--repeat") && i + 1 < count)
            repeats = atoi(words[++i]);
        else if (!strcmp(words[i], "--times") && i + 1 < count)
            times = words[++i];
        else if (!strcmp(words[i], "--check"))
            only_check = true;
        else if (!plans)
            plans = words[i];
        else
            runs = words[i];
    if (!plans || (!runs && !only_check)) {
        fprintf(stderr, "usage: recorder [--slot US] [--repeat N] [--times FILE] PLANS RUNS\n"
                        "       recorder --check PLANS\n");
        return 2;
    }
    std::ifstream in(plans);
    if (only_check)
        return check_plans(in);
    FILE *out = fopen(runs, "w"), *out_times = times ? fopen(times, "w") : nullptr;
    if (!in || !out || (times && !out_times))
        fail("cannot open", plans);
    open_machine(m);
    int played = 0, late = 0;
    for (plan p; read_plan(in, p);)
        for (int i = 0; i < repeats; i++) {
            timing t;
            outcome result = LATE_HOST;
            for (int tries = 0; result == LATE_HOST && tries < 4; tries++)
                result = play(m, p, t);
            late += result == LATE_HOST;
            if (result != PLAYED)
                continue;
            played++;
            write_run(out, m, p, t);
            if (out_times)
                write_times(out_times, m, p, t);
        }
    fclose(out);
    if (out_times)
        fclose(out_times);
    fprintf(stderr, "recorder: %d runs, %d given up because the host was late\n", played, late);
    return 0;
}
