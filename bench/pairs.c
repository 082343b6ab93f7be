/*
 * pairs.c: the gain of running a matrix product and another kernel at the same time: for each of tgemm, wgemm, cuBLAS
 * and conv with each of the fifteen kernels that ISPA pairs, and with kernels that use only one unit,
 *
 *   serial   one after the other
 *   streams  as they are, on two streams of a process
 *   mps      as they are, in two processes under MPS
 *   inside   as persistent forms that share each SM, with several numbers of worker blocks; the best one counts
 *   split    as confined forms, each on SMs of its own, with several sizes; the best one counts
 *
 * Each kernel is repeated so often that it takes about --ms alone. The makespan is from the first launch to the end of
 * both. First each number of worker blocks, and each split, is tried; then all modes alternate, --repeats times, and
 * medians count. The results of the forms are compared with those of the originals alone.
 *
 * cuBLAS has no forms: it stays as it is. Inside, its partner has some worker blocks; split, both are on parts of the
 * GPU that the driver makes (green contexts).
 */
#include "pairs.h"

#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the kernels ---- */

static const struct entry {
    const char *name;
    int32_t n[GS_ZOO_NUMBERS];        /* the size: about a millisecond */
    double tensor, fma, issue, bytes; /* what it does in a pass, see below; 0: not counted */
} entries[] = {
    /* tensor: 2 m n k; fma and issue: FP32 instructions and all instructions of all threads, counted in the loops of
       the machine code (CUDA 13.0, sm_90); bytes: each input read and each output written once */
    {"tgemm", {4096, 4096, 2048}, 2.0 * 4096 * 4096 * 2048, 0, 4096.0 * 128 * 64 * 1027, 4.0 * 4096 * (2048 + 4096)},
    {"wgemm", {4096, 4096, 4096}, 2.0 * 4096 * 4096 * 4096, 0, 512.0 * 256 * 64 * 81, 8.0 * 4096 * 4096},
    {"cuBLAS", {0}, 2.0 * 4096 * 4096 * 4096, 0, 0, 8.0 * 4096 * 4096},
    {"conv", {128, 64, 384, 384}, 2.0 * 128 * 576 * 147456, 0, 4608.0 * 128 * 18 * 1027, 2.0 * 576 * 147456 * 2},
    {"bfs", {2000000, 8, 12}, 0, 0, 2e6 * (12 * 15 + 8 * 12), 4.0 * 2000000 * (8 + 4)},
    {"cp", {4096, 2048, 500}, 0, 5.5 * 4096 * 2048 * 500, 8.0 * 4096 * 2048 * 500, 8.0 * 4096 * 2048},
    {"cutcp", {24, 24, 24}, 0, 0, 0, 4.0 * 24 * 24 * 24 * 512},
    {"fft", {65536}, 0, 65536.0 * 9 * 128 * 58, 65536.0 * 9 * 128 * 194, 16.0 * 65536 * 512},
    {"histo", {32000000, 2640}, 0, 0, 7 * 32e6, 4.0 * 32000000},
    {"img", {8192, 8192}, 0, 25.0 * 8192 * 8192, 150.0 * 8192 * 8192, 8.0 * 8192 * 8192},
    {"lbm", {4096, 2048, 4}, 0, 4.0 * 4096 * 2048 * 108, 4.0 * 4096 * 2048 * 400, 4.0 * 4096 * 2048 * 73},
    {"mrif", {2000000, 256}, 0, 2000000.0 * 256 * 24, 2000000.0 * 256 * 52, 20.0 * 2000000},
    {"mriq", {2000000, 256}, 0, 2000000.0 * 256 * 20, 2000000.0 * 256 * 43, 20.0 * 2000000},
    {"pns", {8192, 256}, 0, 0, 8192.0 * 512 * 256 * 46, 0},
    {"regtil", {4096, 4096, 512}, 0, 4096.0 * 4096 * 512, 4096.0 * 4096 * 512 * 38 / 18, 4.0 * 4096 * (4096 + 1024)},
    {"sgemm", {4096, 4096, 512}, 0, 4096.0 * 4096 * 512, 4096.0 * 4096 * 512 * 276 / 128, 4.0 * 4096 * (8192 + 1024)},
    {"spmv", {1000000, 48}, 0, 0, 1e6 * 24.5 * 11, 8.0 * 1000000 * 24.5 + 16.0 * 1000000},
    {"stenc",
     {1024, 1024, 96, 2},
     0,
     2.0 * 7 * 1024 * 1024 * 96,
     2.0 * 50 * 1024 * 1024 * 96,
     2.0 * 8 * 1024 * 1024 * 96},
    {"tpacf", {16384, 16384}, 0, 5.0 * 2 * 16384 * 16384, 34.0 * 2 * 16384 * 16384, 0},
};

enum { PRODUCTS = 4, ENTRIES = GS_COUNT(entries), SIDES = ENTRIES + PAIR_PROBES, PARTNERS = SIDES - PRODUCTS };

struct pairs {
    double ms;
    int repeats;
    const char *only, *library, *json, *size;       /* size: of all kernels of the zoo, instead of those below */
    bool has_mps, has_probes, has_clocks, is_alone; /* is_alone: no pairs */
    pair_card card;
    pair_clients *clients;
    pair_meter *meter; /* NULL: clocks are not measured */
    pair_side sides[SIDES];
    pair_result results[PRODUCTS * PARTNERS];
    size_t result_count;
    int wrong;
};

static void fill_side(pair_side *side, const struct entry *entry, const char *size) {
    *side = (pair_side){.name = entry->name, .kernel = gs_zoo_find(entry->name), .has_forms = true};
    side->size.name = "large";
    memcpy(side->size.n, entry->n, sizeof side->size.n);
    if (size && side->kernel)
        side->size = *gs_zoo_size_find(side->kernel, size);
    side->work[UNIT_TENSOR] = entry->tensor;
    side->work[UNIT_FMA] = entry->fma;
    side->work[UNIT_ISSUE] = entry->issue;
    side->work[UNIT_DRAM] = entry->bytes;
}

/* ---- rounds ---- */

static double since_ms(int64_t began_ns) {
    return (double)(gs_now_ns() - began_ns) / 1e6;
}

static double round_alone(struct pairs *pairs, pair_side *side, const pair_way *way, uint32_t repeat) {
    pair_card *card = &pairs->card;
    if (!side_arm(side, card, way))
        return 0;
    int64_t began_ns = gs_now_ns();
    for (uint32_t i = 0; i < repeat; i++)
        if (!side_pass(side, card, way))
            return 0;
    return card_check(card, card->api.stream_wait(side->stream), side->name) ? since_ms(began_ns) : 0;
}

static bool pass(struct pairs *pairs, pair_side *side, const pair_way *way, uint32_t number) {
    static const pair_way original = {.form = GS_FORM_ORIGINAL};
    return side_pass(side, &pairs->card, way->passes && number >= way->passes ? &original : way);
}

/* Waits for both, and finds when each has ended; 0: not known. */
static bool end_both(struct pairs *pairs, pair_side *a, pair_side *b) {
    const cu_api *api = &pairs->card.api;
    pair_side *both[] = {a, b};
    bool is_timed = true;
    int failed = 0;
    for (int i = 0; i < 2; i++)
        is_timed = api->event_record(both[i]->ended, side_stream(both[i])) == 0 && is_timed;
    for (int i = 0; i < 2; i++) {
        int state = api->stream_wait(side_stream(both[i]));
        failed = failed ? failed : state;
    }
    for (int i = 0; i < 2; i++) {
        float ms = 0;
        is_timed = is_timed && api->event_elapsed(&ms, pairs->card.began, both[i]->ended) == 0;
        both[i]->ended_ms = is_timed ? ms : 0;
    }
    return card_check(&pairs->card, failed, "waiting for both");
}

/* Launches the passes of both alternately, in proportion to their numbers. 0: failed, or not all blocks have run. */
static double round_both(struct pairs *pairs, pair_side *a, const pair_way *a_way, pair_side *b,
                         const pair_way *b_way) {
    pair_card *card = &pairs->card;
    if (!side_arm(a, card, a_way) || !side_arm(b, card, b_way))
        return 0;
    int64_t began_ns = gs_now_ns();
    card->api.event_record(card->began, side_stream(a));
    for (uint32_t i = 0, k = 0; i < a->repeat || k < b->repeat;) {
        bool is_a = k == b->repeat || (i < a->repeat && (uint64_t)i * b->repeat <= (uint64_t)k * a->repeat);
        if (!(is_a ? pass(pairs, a, a_way, i++) : pass(pairs, b, b_way, k++))) {
            end_both(pairs, a, b);
            return 0;
        }
    }
    bool is_good = end_both(pairs, a, b);
    double ms = since_ms(began_ns);
    return is_good && side_is_complete(a, card, a_way) && side_is_complete(b, card, b_way) ? ms : 0;
}

/* Puts both on parts of the GPU, or back on all of it. */
static bool use_parts(struct pairs *pairs, pair_side *a, pair_side *b, int sms) {
    static struct {
        int sms;
        cu_stream first, others;
    } made[8];
    size_t i = 0;
    a->part = b->part = NULL;
    while (sms && i < GS_COUNT(made) && made[i].sms && made[i].sms != sms)
        i++;
    if (sms && i == GS_COUNT(made))
        return false;
    if (sms && !made[i].sms && !parts_make(&pairs->card, sms, &made[i].first, &made[i].others))
        return false;
    if (sms) {
        made[i].sms = sms;
        a->part = made[i].first;
        b->part = made[i].others;
    }
    return side_use_blas(a);
}

static double round_trial(struct pairs *pairs, const pair_result *result, pair_trial *trial) {
    pair_side *a = (pair_side *)(uintptr_t)result->a, *b = (pair_side *)(uintptr_t)result->b;
    const pair_way *ways = trial->ways;
    double ms = 0;
    if (!trial->part_sms || use_parts(pairs, a, b, trial->part_sms))
        ms = trial->b_is_first ? round_both(pairs, b, &ways[1], a, &ways[0])
                               : round_both(pairs, a, &ways[0], b, &ways[1]);
    if (trial->part_sms)
        use_parts(pairs, a, b, 0);
    trial->ended_ms[0] = a->ended_ms;
    trial->ended_ms[1] = b->ended_ms;
    return ms;
}

/* ---- the ways to run both that are tried ---- */

static void add_trial(pair_trials *trials, const pair_trial *trial) {
    for (size_t i = 0; i < trials->count; i++)
        if (memcmp(&trials->list[i], trial, sizeof *trial) == 0)
            return;
    if (trials->count < GS_COUNT(trials->list))
        trials->list[trials->count++] = *trial;
}

static uint32_t most_of(const struct pairs *pairs, const pair_side *side, enum gs_form form, size_t kind) {
    gs_shape shape = side_shape(side, form, kind);
    return card_fit(&pairs->card, &shape, NULL, 0);
}

/* A share of the worker blocks that fit alone, at least one. */
static pair_way share_of(const struct pairs *pairs, const pair_side *side, double share) {
    pair_way way = {.form = side->kernel ? GS_FORM_PERSISTENT : GS_FORM_ORIGINAL};
    for (size_t kind = 0; kind < side->instance.kind_count; kind++)
        way.workers[kind] = (uint32_t)fmax(1, floor(share * most_of(pairs, side, way.form, kind) + 0.5));
    return way;
}

/* As many worker blocks as fit beside those of the other, whichever of its kernels runs. False: none. */
static bool fit_beside(const struct pairs *pairs, const pair_side *side, const pair_side *other, const pair_way *beside,
                       pair_way *way) {
    *way = (pair_way){.form = GS_FORM_PERSISTENT, .has_carveout = beside->has_carveout};
    for (size_t kind = 0; kind < side->instance.kind_count; kind++) {
        gs_shape shape = side_shape(side, GS_FORM_PERSISTENT, kind);
        shape.carveout_percent = way->has_carveout ? 100 : GS_NO_CARVEOUT;
        way->workers[kind] = UINT32_MAX;
        for (size_t k = 0; k < other->instance.kind_count; k++) {
            gs_shape others = side_shape(other, GS_FORM_PERSISTENT, k);
            others.carveout_percent = shape.carveout_percent;
            uint32_t fit = card_fit(&pairs->card, &shape, &others, beside->workers[k]);
            way->workers[kind] = fit < way->workers[kind] ? fit : way->workers[kind];
        }
        if (!way->workers[kind])
            return false;
    }
    return true;
}

/* One of both has a share of the worker blocks that fit alone, the other as many as fit beside; cuBLAS stays as it is.
 */
static void add_inside(const struct pairs *pairs, const pair_side *a, const pair_side *b, double share, bool b_is_first,
                       bool has_carveout, pair_trials *trials) {
    pair_trial trial = {.b_is_first = b_is_first};
    bool b_has_share = b_is_first || !a->kernel;
    pair_way *given = &trial.ways[b_has_share], *other = &trial.ways[!b_has_share];
    *given = share_of(pairs, b_has_share ? b : a, share);
    given->has_carveout = has_carveout;
    if (!a->kernel || fit_beside(pairs, b_has_share ? a : b, b_has_share ? b : a, given, other))
        add_trial(trials, &trial);
}

static pair_trials inside_trials(const struct pairs *pairs, const pair_side *a, const pair_side *b) {
    static const double shares[] = {1, 0.75, 0.5, 0.25};
    pair_trials trials = {.count = 0};
    for (size_t i = 0; i < GS_COUNT(shares); i++)
        for (int has_carveout = 0; has_carveout < 2; has_carveout++) {
            add_inside(pairs, a, b, shares[i], false, has_carveout, &trials);
            if (i > 0)
                add_inside(pairs, a, b, shares[i], true, has_carveout, &trials);
        }
    return trials;
}

static pair_way on_sms(const struct pairs *pairs, const pair_side *side, int first, int sms) {
    pair_way way = {.form = side->kernel ? GS_FORM_CONFINED : GS_FORM_ORIGINAL, .first_sm = first, .sms = sms};
    for (size_t kind = 0; kind < side->instance.kind_count && side->kernel; kind++)
        way.workers[kind] = most_of(pairs, side, GS_FORM_CONFINED, kind);
    return way;
}

static pair_trials split_trials(const struct pairs *pairs, const pair_side *a, const pair_side *b) {
    static const double shares[] = {0.25, 0.375, 0.5, 0.625, 0.75};
    pair_trials trials = {.count = 0};
    for (size_t i = 0; i < GS_COUNT(shares); i++) {
        int sms = pairs->card.sms, first = (int)(sms * shares[i] + 0.5);
        pair_trial trial = {.ways = {on_sms(pairs, a, 0, first), on_sms(pairs, b, first, sms - first)}};
        if (!a->kernel) {
            trial.part_sms = first;
            trial.ways[1].form = GS_FORM_ORIGINAL;
        }
        add_trial(&trials, &trial);
    }
    return trials;
}

/* If one side has ended long before the other, its partner goes on with fewer worker blocks, or SMs, than it could use.
   Then only as many of its passes as fit into the time of both are shaped, and the others are originals. */
static bool balance(const pair_result *result, pair_trial *trial) {
    const pair_side *a = result->a, *b = result->b;
    bool a_is_late = a->ended_ms > b->ended_ms;
    const pair_side *late = a_is_late ? a : b, *early = a_is_late ? b : a;
    pair_way *way = &trial->ways[!a_is_late];
    double passes = floor(late->repeat * early->ended_ms / late->ended_ms + 0.5);
    if (way->form == GS_FORM_ORIGINAL || early->ended_ms <= 0 || passes < 1 || passes >= late->repeat)
        return false;
    way->passes = (uint32_t)passes;
    return true;
}

static void keep_best(pair_trial *best, pair_trial *trial, double ms) {
    trial->ms = ms > 0 && (trial->ms == 0 || ms < trial->ms) ? ms : trial->ms;
    if (trial->ms > 0 && (best->ms == 0 || trial->ms < best->ms))
        *best = *trial;
}

/* Tries each, unchanged and balanced. False: no way to try. */
static bool find_best(struct pairs *pairs, const pair_result *result, pair_trials *trials, pair_trial *best) {
    *best = (pair_trial){.ms = 0};
    for (size_t i = 0; i < trials->count; i++) {
        pair_trial *trial = &trials->list[i], balanced = *trial;
        keep_best(best, trial, round_trial(pairs, result, trial));
        if (trial->ms <= 0 || !balance(result, &balanced))
            continue;
        keep_best(best, &balanced, round_trial(pairs, result, &balanced));
        if (balanced.ms > 0 && balanced.ms < trial->ms)
            *trial = balanced;
    }
    return best->ms > 0;
}

/* ---- a pair ---- */

static bool check_results(struct pairs *pairs, const pair_result *result, const pair_trial *trial) {
    pair_side *both[] = {(pair_side *)(uintptr_t)result->a, (pair_side *)(uintptr_t)result->b};
    pair_card *card = &pairs->card;
    bool is_good = true;
    for (int i = 0; i < 2; i++)
        is_good = is_good && side_arm(both[i], card, &trial->ways[i]) && side_restore(both[i], card);
    for (int i = 0; i < 2; i++)
        is_good = is_good && side_pass(both[i], card, &trial->ways[i]);
    for (int i = 0; i < 2; i++)
        is_good = is_good && card_check(card, card->api.stream_wait(both[i]->stream), both[i]->name);
    for (int i = 0; i < 2 && is_good; i++)
        if (!side_is_right(both[i], card)) {
            fprintf(stderr, "pairs: %s beside %s: the results of %s are wrong\n", both[0]->name, both[1]->name,
                    both[i]->name);
            is_good = false;
        }
    return is_good;
}

static void add(pair_series *series, double ms) {
    if (ms > 0 && series->count < PAIR_MOST_REPEATS)
        series->ms[series->count++] = ms;
}

static void take_turns(struct pairs *pairs, pair_result *result) {
    pair_trial originals = {.ways = {{.form = GS_FORM_ORIGINAL}, {.form = GS_FORM_ORIGINAL}}};
    const pair_way *original = originals.ways;
    pair_side *a = (pair_side *)(uintptr_t)result->a, *b = (pair_side *)(uintptr_t)result->b;
    pair_series alone[2] = {{.count = 0}, {.count = 0}};
    for (int i = 0; i < pairs->repeats; i++) {
        double a_ms = round_alone(pairs, a, original, a->repeat), b_ms = round_alone(pairs, b, original, b->repeat);
        add(&alone[0], a_ms);
        add(&alone[1], b_ms);
        add(&result->series[MODE_SERIAL], a_ms > 0 && b_ms > 0 ? a_ms + b_ms : 0);
        add(&result->series[MODE_STREAMS], round_trial(pairs, result, &originals));
        if (pairs->clients)
            add(&result->series[MODE_MPS], clients_round(pairs->clients, (size_t)(a - pairs->sides), a->repeat,
                                                         (size_t)(b - pairs->sides), b->repeat));
        if (result->inside.ms > 0)
            add(&result->series[MODE_INSIDE], round_trial(pairs, result, &result->inside));
        if (result->split.ms > 0)
            add(&result->series[MODE_SPLIT], round_trial(pairs, result, &result->split));
    }
    result->a_ms = series_median(&alone[0]);
    result->b_ms = series_median(&alone[1]);
}

/* The work that runs while clocks are measured. */
struct watched {
    struct pairs *pairs;
    pair_result *result;
    enum pair_clocks which;
};

static double watched_round(void *context) {
    static const pair_way original = {.form = GS_FORM_ORIGINAL};
    const struct watched *watched = context;
    pair_side *side = (pair_side *)(uintptr_t)(watched->which == CLOCK_FIRST ? watched->result->a : watched->result->b);
    return watched->which == CLOCK_INSIDE ? round_trial(watched->pairs, watched->result, &watched->result->inside)
                                          : round_alone(watched->pairs, side, &original, side->repeat);
}

static void measure_clocks(struct pairs *pairs, pair_result *result) {
    for (int which = 0; which < PAIR_CLOCKS && pairs->meter; which++) {
        struct watched watched = {pairs, result, (enum pair_clocks)which};
        if (which == CLOCK_INSIDE && result->inside.ms <= 0)
            continue;
        if (!meter_watch(pairs->meter, watched_round, &watched, &result->clocks[which]))
            result->clocks[which].rounds = 0;
    }
}

static void measure_pair(struct pairs *pairs, pair_side *a, pair_side *b) {
    pair_result *result = &pairs->results[pairs->result_count++];
    *result = (pair_result){.a = a, .b = b};
    result->insides = inside_trials(pairs, a, b);
    result->splits = split_trials(pairs, a, b);
    if (find_best(pairs, result, &result->insides, &result->inside))
        result->is_wrong = !check_results(pairs, result, &result->inside);
    if (find_best(pairs, result, &result->splits, &result->split) && !result->split.part_sms)
        result->is_wrong = !check_results(pairs, result, &result->split) || result->is_wrong;
    take_turns(pairs, result);
    measure_clocks(pairs, result);
    pairs->wrong += result->is_wrong;
    table_pair(result);
    table_clocks(result);
}

/* ---- setting up ---- */

static bool is_wanted(const struct pairs *pairs, const pair_side *a, const pair_side *b) {
    char name[100];
    snprintf(name, sizeof name, "%s-%s", a->name, b->name);
    bool is_probe = b->text != NULL;
    return (pairs->has_probes || !is_probe) && (!pairs->only || strstr(name, pairs->only));
}

/* Whether a side is in a requested pair. */
static bool is_needed(const struct pairs *pairs, size_t number) {
    bool is_needed = false;
    for (size_t i = 0; i < PRODUCTS; i++)
        for (size_t k = PRODUCTS; k < SIDES; k++)
            is_needed =
                is_needed || ((number == i || number == k) && is_wanted(pairs, &pairs->sides[i], &pairs->sides[k]));
    return is_needed;
}

struct preparation {
    pair_side *side;
    int architecture;
};

static void *prepare(void *given) {
    const struct preparation *preparation = given;
    side_prepare(preparation->side, preparation->architecture);
    return NULL;
}

static void prepare_all(struct pairs *pairs) {
    pthread_t threads[SIDES];
    struct preparation list[SIDES];
    bool is_started[SIDES] = {false};
    for (size_t i = 0; i < SIDES; i++) {
        list[i] = (struct preparation){&pairs->sides[i], pairs->card.architecture};
        if (!pairs->sides[i].is_used)
            continue;
        is_started[i] = pthread_create(&threads[i], NULL, prepare, &list[i]) == 0;
        if (!is_started[i])
            prepare(&list[i]);
    }
    for (size_t i = 0; i < SIDES; i++)
        if (is_started[i])
            pthread_join(threads[i], NULL);
}

/* Loads a side, keeps the results of its first pass, and counts the passes of a round. */
static void start_side(struct pairs *pairs, pair_side *side) {
    const pair_way original = {.form = GS_FORM_ORIGINAL};
    enum { PASSES = 3 };
    side->failed = !side_open_blas(side, pairs->library) || side->failed;
    if (!side_load(side, &pairs->card) || round_alone(pairs, side, &original, 1) <= 0 ||
        !side_keep(side, &pairs->card)) {
        fprintf(stderr, "pairs: %s is left out: %s\n", side->name, side->why);
        side->is_ready = false;
        return;
    }
    if (pairs->is_alone) { /* a profiler is slow, and measures itself */
        side->repeat = 1;
        side->pass_ms = round_alone(pairs, side, &original, 1);
        table_side(side);
        return;
    }
    side->pass_ms = round_alone(pairs, side, &original, PASSES) / PASSES;
    side->repeat = (uint32_t)fmax(1, floor(pairs->ms / side->pass_ms + 0.5));
    side->pass_ms = round_alone(pairs, side, &original, side->repeat) / side->repeat;
    side->repeat = (uint32_t)fmax(1, floor(pairs->ms / side->pass_ms + 0.5));
    table_side(side);
}

static void measure(struct pairs *pairs) {
    for (size_t i = 0; i < SIDES; i++)
        if (pairs->sides[i].is_used)
            start_side(pairs, &pairs->sides[i]);
    if (pairs->clients && !clients_wait(pairs->clients, 20))
        fprintf(stderr, "pairs: not all processes under MPS have started\n");
    if (pairs->is_alone)
        return;
    table_pair_head();
    for (size_t i = 0; i < PRODUCTS; i++)
        for (size_t k = PRODUCTS; k < SIDES && !services_interrupted(); k++)
            if (is_wanted(pairs, &pairs->sides[i], &pairs->sides[k]) && pairs->sides[i].is_ready &&
                pairs->sides[k].is_ready)
                measure_pair(pairs, &pairs->sides[i], &pairs->sides[k]);
    table_averages(pairs->results, pairs->result_count);
}

static int usage(void) {
    fprintf(stderr,
            "usage: pairs [--ms N] [--repeats N] [--only NAME-NAME] [--no-mps] [--no-probes] [--clocks] [--alone]\n"
            "             [--cublas FILE] [--json FILE] [--size tiny|odd|small|large]\n");
    return 2;
}

static bool read_options(struct pairs *pairs, int argc, char **argv) {
    static const struct option options[] = {{"ms", required_argument, NULL, 't'},
                                            {"repeats", required_argument, NULL, 'r'},
                                            {"only", required_argument, NULL, 'o'},
                                            {"no-mps", no_argument, NULL, 'm'},
                                            {"no-probes", no_argument, NULL, 'p'},
                                            {"clocks", no_argument, NULL, 'k'},
                                            {"alone", no_argument, NULL, 'a'},
                                            {"cublas", required_argument, NULL, 'c'},
                                            {"json", required_argument, NULL, 'j'},
                                            {"size", required_argument, NULL, 's'},
                                            {0}};
    *pairs = (struct pairs){.ms = 8, .repeats = 5, .has_mps = true, .has_probes = true};
    for (int letter; (letter = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (letter) {
        case 't':
            pairs->ms = atof(optarg);
            break;
        case 'r':
            pairs->repeats = (int)gs_max(1, gs_min(atoi(optarg), PAIR_MOST_REPEATS));
            break;
        case 'o':
            pairs->only = optarg;
            break;
        case 'm':
            pairs->has_mps = false;
            break;
        case 'p':
            pairs->has_probes = false;
            break;
        case 'a':
            pairs->is_alone = true;
            break;
        case 'k':
            pairs->has_clocks = true;
            break;
        case 'c':
            pairs->library = optarg;
            break;
        case 'j':
            pairs->json = optarg;
            break;
        case 's':
            pairs->size = optarg;
            break;
        default:
            return false;
        }
    return optind == argc && pairs->ms > 0 && (!pairs->size || gs_zoo_size_find(gs_zoo_at(0), pairs->size));
}

static int run(struct pairs *pairs, const char *self) {
    char why[300] = "";
    if (pairs->has_mps) {
        pairs->clients = clients_start(pairs->sides, SIDES, pairs->library, self, why, sizeof why);
        if (!pairs->clients)
            fprintf(stderr, "pairs: not measured under MPS: %s\n", why);
    }
    if (!card_open(&pairs->card)) {
        clients_stop(pairs->clients);
        return 3;
    }
    prepare_all(pairs);
    pairs->meter = pairs->has_clocks ? meter_open(&pairs->card) : NULL;
    measure(pairs);
    FILE *file = pairs->json ? fopen(pairs->json, "w") : NULL;
    if (file) {
        table_json(file, pairs->sides, SIDES, pairs->results, pairs->result_count);
        fclose(file);
    }
    clients_stop(pairs->clients);
    meter_close(pairs->meter);
    for (size_t i = 0; i < SIDES; i++)
        side_free(&pairs->sides[i], &pairs->card);
    card_close(&pairs->card);
    return pairs->wrong ? 1 : 0;
}

int main(int argc, char **argv) {
    static struct pairs pairs;
    if (!read_options(&pairs, argc, argv))
        return usage();
    for (size_t i = 0; i < ENTRIES; i++)
        fill_side(&pairs.sides[i], &entries[i], pairs.size);
    for (int i = 0; i < PAIR_PROBES; i++)
        probe_make(&pairs.sides[ENTRIES + i], i);
    for (size_t i = 0; i < SIDES; i++)
        pairs.sides[i].is_used = is_needed(&pairs, i);
    int status = run(&pairs, argv[0]);
    probes_free();
    return status;
}
