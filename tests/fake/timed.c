/*
 * timed.c: the SMs of the fake GPU: the times of warps of a timed kernel, cycle by cycle.
 *
 * An SM has four partitions, each of which issues one instruction per cycle and has its own multipliers; shared memory
 * is common to all and takes one warp per cycle. Warps take turns in a partly random order, and start a few cycles
 * apart. SMs with the same number of blocks take the same time. With `slows-down` a load in a program takes longer than
 * one in a chain of loads if there are several warps, so that no bound made from measured chains can hold.
 *
 * Kernels of classes of instructions take what fake_class_times says.
 */
#include "fake.h"

#include "model/engine/engine.h"

enum { PARTITIONS = 4, MOST_INSTRUCTIONS = 256, MOST_WARPS = 64 };

/* The instructions of a body, by letter: K reads the clock. */
static const struct kind {
    char letter;
    int latency;
    bool is_shared; /* by the partitions of an SM */
} kinds[] = {{'K', 6, false}, {'C', 4, false}, {'L', 23, true}, {'S', 3, true}};

struct warp {
    int done;
    int64_t ready, start, end;
};

static size_t append(char *text, size_t at, const char *letters) {
    for (; *letters; letters++)
        text[at++] = *letters;
    text[at] = '\0';
    return at;
}

/* The letters of a body, from the first reading of the clock to the second. */
static void write_body(int body, int count, char *text) {
    static const char *const repeated[] = {"", "C", "L", "S", "LLC", "LLC"};
    size_t at = append(text, 0, body == GS_TIMED_PROGRAM ? "KC" : "K");
    for (int i = 0; i < count; i++)
        at = append(text, at, repeated[body]);
    append(text, at, body == GS_TIMED_PROGRAM ? "SK" : "K");
}

static const struct kind *kind_of(char letter) {
    size_t i = 0;
    while (kinds[i].letter != letter)
        i++;
    return &kinds[i];
}

static int latency_of(const char *text, int instruction, int warps) {
    bool slow = fake_has("slows-down") && warps > 1 && strstr(text, "SK") && text[instruction] == 'L';
    return kind_of(text[instruction])->latency + (slow ? 60 : 0);
}

/* One cycle: each partition issues for one of its warps, if there is one that can go on. */
static int step(const char *text, struct warp *warps, int count, int64_t cycle, gs_random *random) {
    bool memory_is_busy = false;
    int ended = 0, length = (int)strlen(text);
    for (int partition = 0; partition < PARTITIONS; partition++) {
        int first = (int)gs_random_from(random, 0, count - 1);
        for (int i = 0; i < count; i++) {
            struct warp *warp = &warps[(first + i) % count];
            if ((first + i) % count % PARTITIONS != partition || warp->done == length || warp->ready > cycle)
                continue;
            bool needs_memory = kind_of(text[warp->done])->is_shared;
            if (needs_memory && memory_is_busy)
                continue;
            memory_is_busy |= needs_memory;
            warp->start = warp->done == 0 ? cycle : warp->start;
            warp->end = cycle;
            warp->ready = cycle + latency_of(text, warp->done, count);
            ended += ++warp->done == length;
            break;
        }
    }
    return ended;
}

static void play_sm(const char *text, struct warp *warps, int count, gs_random *random) {
    int64_t cycle = 1000;
    for (int i = 0; i < count; i++)
        warps[i] = (struct warp){.ready = cycle + gs_random_from(random, 0, 3)};
    for (int ended = 0; ended < count; cycle++)
        ended += step(text, warps, count, cycle, random);
}

/* Where the blocks go: the SM of each. False: not all fit. */
static bool place(const gs_gpu *description, const gs_shape *shape, int64_t blocks, int *sms) {
    gs_dispatcher *dispatcher = gs_dispatcher_new(description, NULL);
    int kernel = gs_dispatcher_kernel(dispatcher, shape, NULL), sm = kernel < 0 ? GS_WAIT : 0;
    for (int64_t i = 0; i < blocks && sm != GS_WAIT; i++)
        if ((sm = sms[i] = gs_dispatcher_next(dispatcher, kernel)) != GS_WAIT)
            gs_dispatcher_place(dispatcher, kernel, sm);
    gs_dispatcher_free(dispatcher);
    return sm != GS_WAIT;
}

static int count_blocks(int sm, const int *sms, uint32_t blocks) {
    int count = 0;
    for (uint32_t block = 0; block < blocks; block++)
        count += sms[block] == sm;
    return count;
}

/* Reports the warps of all blocks of one SM. */
static void report_sm(const struct warp *warps, int sm, const int *sms, const timed_arguments *arguments,
                      int warps_per_block) {
    for (uint32_t block = 0, at = 0; block < arguments->blocks; block++)
        for (int i = 0; sms[block] == sm && i < warps_per_block; i++, at++) {
            size_t entry = (size_t)block * (size_t)warps_per_block + (size_t)i;
            ((uint64_t *)(uintptr_t)arguments->start)[entry] = (uint64_t)warps[at].start;
            ((uint64_t *)(uintptr_t)arguments->end)[entry] = (uint64_t)warps[at].end;
            ((uint32_t *)(uintptr_t)arguments->sm)[block] = (uint32_t)sm + 1;
        }
}

/* ---- classes of instructions ---- */

void fake_class_times(size_t row, int64_t *latency, int64_t *loaded, int64_t *held) {
    bool is_memory = gs_timed_rows[row].scope == GS_UNIT_OF_GPU;
    *latency = is_memory ? 600 + 10 * (int64_t)row : 4 + (int64_t)row;
    *loaded = is_memory ? 3 * *latency : *latency;
    *held = 1 + (int64_t)row % 3;
}

/* Single ones: each takes as long as the others. In memory of which a cache has all they take half as long. Reading the
   clock takes some time, and a barrier of the warps more. */
static int64_t single_cycles(const timed_arguments *arguments, int64_t cycles) {
    enum { CACHE_BYTES = 16 << 20, READING = 12, BARRIER = 30 };
    if (((uint64_t)arguments->data_mask + 1) * TIMED_UNIT_BYTES <= CACHE_BYTES)
        cycles /= 2;
    int64_t late = cycles + READING + (arguments->is_together ? BARRIER : 0) - arguments->rate;
    return late < 0 ? 0 : arguments->rate ? late * arguments->singles : late;
}

/* The cycles of a warp, if an SM has `on_sm` of them. */
static int64_t class_cycles(const gs_gpu *description, int body, int count, const timed_arguments *arguments,
                            int64_t on_sm, int64_t warps) {
    enum { OVERHEAD = 20, LINE_INSTRUCTIONS = 8 };
    size_t row = (size_t)(body - GS_TIMED_CLASSES) / 4;
    int kind = body % 4;
    int64_t latency, loaded, held;
    if (body < GS_TIMED_CLASSES)
        return body == GS_TIMED_CLOCK ? 15 * 1000000 : 0;
    fake_class_times(row, &latency, &loaded, &held);
    if (kind == GS_TIMED_SINGLE)
        return single_cycles(arguments, row == GS_TIMED_BARE_ROW ? 0 : on_sm > 1 ? loaded : latency);
    const gs_timed_row *of = &gs_timed_rows[row];
    int64_t alone = latency * count + OVERHEAD, users = of->scope == GS_UNIT_OF_GPU ? warps : on_sm;
    int64_t units = of->scope == GS_UNIT_OF_PARTITION ? description->limits.partitions_per_sm
                    : of->scope == GS_UNIT_OF_GPU     ? FAKE_MEMORY_UNITS
                                                      : 1;
    int64_t together = users * held * count * of->transactions / units;
    int64_t code = kind == GS_TIMED_COLD ? 500 * count / LINE_INSTRUCTIONS : kind == GS_TIMED_LOOP ? 7 * count : 0;
    return (together > alone ? together : alone) + code;
}

static void report_class(const gs_gpu *description, int body, int count, const timed_arguments *arguments,
                         const int *sms, int warps_per_block) {
    for (uint32_t block = 0; block < arguments->blocks; block++) {
        int on_sm = body == GS_TIMED_EMPTY ? 0 : count_blocks(sms[block], sms, arguments->blocks) * warps_per_block;
        int64_t warps = (int64_t)arguments->blocks * warps_per_block;
        for (int i = 0; i < warps_per_block; i++)
            ((uint64_t *)(uintptr_t)arguments->end)[block * (uint32_t)warps_per_block + (uint32_t)i] =
                (uint64_t)class_cycles(description, body, count, arguments, on_sm, warps);
        ((uint32_t *)(uintptr_t)arguments->sm)[block] = body == GS_TIMED_EMPTY ? 1 : (uint32_t)sms[block] + 1;
    }
}

bool fake_time(const gs_gpu *description, int body, int count, const cu_launch *call,
               const timed_arguments *arguments) {
    static uint64_t launches;
    gs_random random = gs_random_at(7, launches++);
    gs_shape shape = gs_shape_of((int32_t)call->block_x, 32, 16);
    char text[MOST_INSTRUCTIONS];
    struct warp warps[MOST_WARPS];
    int *sms = calloc(arguments->blocks, sizeof *sms), warps_per_block = (int)call->block_x / 32, played = 0;
    bool is_empty = body == GS_TIMED_EMPTY;
    if (!sms || (!is_empty && !place(description, &shape, arguments->blocks, sms)) || arguments->one != 1 ||
        arguments->zero != 0) {
        free(sms);
        return false;
    }
    if (body >= GS_TIMED_EMPTY) {
        report_class(description, body, count, arguments, sms, warps_per_block);
        free(sms);
        return true;
    }
    write_body(body, count, text);
    for (int sm = 0; sm < description->sms; sm++) {
        int on_sm = count_blocks(sm, sms, arguments->blocks) * warps_per_block;
        if (!on_sm || on_sm > MOST_WARPS)
            continue;
        if (on_sm != played)
            play_sm(text, warps, played = on_sm, &random);
        report_sm(warps, sm, sms, arguments, warps_per_block);
    }
    free(sms);
    return true;
}
