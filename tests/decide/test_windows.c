/*
 * test_windows.c: random decisions, blocks and pauses; what src/sharing/decide/window.c adds to the profiles is
 * compared with the rules, written out: a window is a time in which the same one or two kernels run in the same way. It
 * counts if it is long enough and each of them did something. Those of two that share SMs, other than trials, are added
 * up until they are.
 */
#include "decide_support.h"

#include <string.h>

enum { MS = 1000000, KERNELS = 3, STEPS = 400 };
enum kind { NOTHING, RATE, SERIAL, BESIDE, INSIDE };

/* ---- what is learned ---- */

struct learned {
    enum kind kind;
    gs_beside both[2];
    int32_t workers[2];
    uint64_t ns;
};

static struct learned found, wanted;

static void find(enum kind kind, const gs_beside *first, const gs_beside *second, const int32_t *workers, uint64_t ns) {
    assert_int_equal(found.kind, NOTHING);
    found = (struct learned){.kind = kind, .both = {*first}, .ns = ns};
    if (second)
        found.both[1] = *second;
    if (workers)
        memcpy(found.workers, workers, sizeof found.workers);
}

void __wrap_gs_profile_rate(gs_profile *profile, int32_t sms, uint64_t blocks, uint64_t ns);
void __wrap_gs_profile_rate(gs_profile *profile, int32_t sms, uint64_t blocks, uint64_t ns) {
    find(RATE, &(gs_beside){profile, sms, blocks}, NULL, NULL, ns);
}

void __wrap_gs_profile_store_serial(gs_profile_store *store, const gs_beside *first, const gs_beside *second,
                                    uint64_t ns);
void __wrap_gs_profile_store_serial(gs_profile_store *store, const gs_beside *first, const gs_beside *second,
                                    uint64_t ns) {
    (void)store;
    find(SERIAL, first, second, NULL, ns);
}

void __wrap_gs_profile_store_inter_sm(gs_profile_store *store, const gs_beside *first, const gs_beside *second,
                                      uint64_t ns);
void __wrap_gs_profile_store_inter_sm(gs_profile_store *store, const gs_beside *first, const gs_beside *second,
                                      uint64_t ns) {
    (void)store;
    find(BESIDE, first, second, NULL, ns);
}

void __real_gs_profile_store_intra_sm(gs_profile_store *store, const gs_beside *first, const gs_beside *second,
                                      const int32_t *workers, uint64_t ns);
void __wrap_gs_profile_store_intra_sm(gs_profile_store *store, const gs_beside *first, const gs_beside *second,
                                      const int32_t *workers, uint64_t ns);
void __wrap_gs_profile_store_intra_sm(gs_profile_store *store, const gs_beside *first, const gs_beside *second,
                                      const int32_t *workers, uint64_t ns) {
    find(INSIDE, first, second, workers, ns);
    __real_gs_profile_store_intra_sm(store, first, second, workers, ns);
}

/* ---- the rules ---- */

struct runner {
    uint64_t stream, blocks;
    gs_profile *profile;
    int32_t sms, workers;
};

static struct literal {
    size_t count;
    struct runner runners[2];
    bool is_serial, is_inside, is_probe;
    uint64_t since_ns, least_ns;
} open_window;

/* Of each two kernels: the times on the same SMs, in the same way, since the last measurement. */
static struct piece {
    struct runner runners[KERNELS];
    uint64_t ns;
} pieces[KERNELS * KERNELS];

static gs_profile *kernels[KERNELS];
static uint64_t now_ns;

static size_t kernel_of(const gs_profile *profile) {
    size_t i = 0;
    while (kernels[i] != profile)
        i++;
    return i;
}

/* Adds the earlier times to the window, and returns their sum. */
static uint64_t add_pieces(struct literal *window, struct piece *piece, uint64_t ns) {
    struct piece sum = {.ns = ns};
    for (size_t i = 0; i < 2; i++)
        if (piece->runners[kernel_of(window->runners[i].profile)].workers != window->runners[i].workers)
            *piece = (struct piece){.ns = 0};
    for (size_t i = 0; i < 2; i++) {
        size_t kernel = kernel_of(window->runners[i].profile);
        window->runners[i].blocks += piece->runners[kernel].blocks;
        sum.runners[kernel] = window->runners[i];
    }
    sum.ns += piece->ns;
    *piece = sum;
    return sum.ns;
}

static void close_window(void) {
    struct literal *window = &open_window;
    uint64_t ns = now_ns - window->since_ns;
    struct piece *piece = NULL;
    if (window->count == 2 && window->is_inside) {
        size_t a = kernel_of(window->runners[0].profile), b = kernel_of(window->runners[1].profile);
        piece = &pieces[a < b ? a * KERNELS + b : b * KERNELS + a];
        ns = window->is_probe || ns < 4 * MS ? ns : add_pieces(window, piece, ns);
    }
    bool is_measured = ns >= window->least_ns;
    for (size_t i = 0; i < window->count; i++)
        is_measured &= window->runners[i].blocks > 0;
    if (window->count && (is_measured || (window->is_inside && window->is_probe))) {
        wanted = (struct learned){.ns = ns,
                                  .kind = window->is_inside    ? INSIDE
                                          : window->count == 1 ? RATE
                                          : window->is_serial  ? SERIAL
                                                               : BESIDE};
        for (size_t i = 0; i < window->count; i++) {
            const struct runner *runner = &window->runners[i];
            wanted.both[i] = (gs_beside){runner->profile, runner->sms, runner->blocks};
            wanted.workers[i] = window->is_inside ? runner->workers : 0;
        }
        if (!is_measured) /* a trial that was too short is told as such */
            wanted.both[0].blocks = 0;
        if (piece)
            *piece = (struct piece){.ns = 0};
    }
    open_window.count = 0;
}

/* One or two kernels, at least one of them with SMs, and not one alone on all of them. A probe is of one kernel,
   however many others wait. */
static struct literal window_of(const gs_decide_options *options, const gs_contender *contenders,
                                const gs_decided_place *places, size_t count) {
    struct literal window = {.count = 0};
    size_t wait = 0, whole = 0;
    for (size_t i = 0; i < count; i++)
        if (places[i].is_probe) {
            contenders += i;
            places += i;
            count = 1;
        }
    gs_contender two[3];
    gs_decided_place their[3];
    size_t inside = 0, placed = 0;
    for (size_t i = 0; i < count; i++)
        if (places[i].how != GS_DECIDE_WAIT) {
            two[placed] = contenders[i];
            their[placed++] = places[i];
            inside += places[i].workers > 0;
        }
    if (placed == 2 && inside == 2) { /* whoever waits beside them */
        contenders = two;
        places = their;
        count = 2;
    }
    for (size_t i = 0; i < count; i++) {
        wait += places[i].how == GS_DECIDE_WAIT;
        whole += places[i].how == GS_DECIDE_WHOLE;
        window.is_inside |= places[i].workers > 0;
    }
    if (count > 2 || wait == count || (count == 1 && whole) || (window.is_inside && count - wait != 2))
        return window;
    window.is_serial = wait > 0 || whole == count;
    window.least_ns = !window.is_serial && window.is_inside && places[0].workers ? (uint64_t)options->trial_ns
                      : !window.is_serial                                        ? 4 * MS
                      : wait > 0                                                 ? 100 * MS
                                                                                 : 20 * MS;
    for (size_t i = 0; i < count; i++) {
        window.runners[i] = (struct runner){.stream = contenders[i].stream,
                                            .profile = (gs_profile *)contenders[i].profile,
                                            .sms = window.is_serial ? 0 : places[i].sms,
                                            .workers = places[i].workers};
        window.is_probe |= places[i].is_probe || places[i].is_trial;
    }
    for (size_t i = 0; i < count; i++)
        if (!contenders[i].profile)
            return (struct literal){.count = 0};
    window.count = count;
    return window;
}

static bool are_equal(const struct runner *a, const struct runner *b) {
    return a->stream == b->stream && a->profile == b->profile && a->sms == b->sms && a->workers == b->workers;
}

/* In any order. */
static bool is_same(const struct literal *a, const struct literal *b) {
    if (a->count != b->count || a->is_serial != b->is_serial)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!are_equal(&a->runners[i], &b->runners[0]) && !(a->count == 2 && are_equal(&a->runners[i], &b->runners[1])))
            return false;
    return true;
}

static void follow(const gs_decide_options *options, const gs_contender *contenders, const gs_decided_place *places,
                   size_t count) {
    struct literal next = window_of(options, contenders, places, count);
    if (is_same(&open_window, &next)) {
        open_window.least_ns = gs_max_u64(open_window.least_ns, next.least_ns);
        if (now_ns - open_window.since_ns < (open_window.least_ns == 100 * MS ? 200 * MS : 50 * MS))
            return;
    }
    close_window();
    next.since_ns = now_ns;
    open_window = next;
}

/* ---- the test ---- */

struct decision {
    size_t count;
    gs_contender contenders[3];
    gs_decided_place places[3];
};

static void draw_decision(gs_random *random, gs_profile *const *profiles, struct decision *decision) {
    size_t first = (size_t)gs_random_from(random, 0, 2);
    bool is_inside = gs_random_from(random, 0, 2) == 0;
    decision->count = (size_t)gs_random_from(random, 0, 6) ? 1 + first % 2 : (size_t)gs_random_from(random, 0, 3);
    for (size_t i = 0; i < decision->count; i++) {
        size_t kernel = (first + i) % KERNELS;
        enum gs_decide_how how = gs_random_from(random, 0, 3)   ? GS_DECIDE_CONFINED
                                 : gs_random_from(random, 0, 1) ? GS_DECIDE_WHOLE
                                                                : GS_DECIDE_WAIT;
        decision->contenders[i] = (gs_contender){.stream = 10 + kernel, .profile = profiles[kernel]};
        if (gs_random_from(random, 0, 15) == 0)
            decision->contenders[i].profile = NULL;
        decision->places[i] = (gs_decided_place){.how = how,
                                                 .sms = (int32_t)gs_random_from(random, 1, 2) * 4,
                                                 .workers = is_inside ? (int32_t)gs_random_from(random, 0, 2) : 0,
                                                 .is_probe = gs_random_from(random, 0, 7) == 0,
                                                 .is_trial = gs_random_from(random, 0, 7) == 0};
        if (decision->places[i].is_probe)
            decision->places[i] =
                (gs_decided_place){.how = GS_DECIDE_CONFINED, .sms = decision->places[i].sms, .is_probe = true};
    }
}

static void count_some(gs_random *random, gs_window *window, gs_profile *const *profiles) {
    size_t stream = (size_t)gs_random_from(random, 0, KERNELS - 1), kernel = stream;
    uint64_t blocks = (uint64_t)gs_random_from(random, 0, 5);
    if (gs_random_from(random, 0, 5) == 0) /* another kernel of the stream */
        kernel = (kernel + 1) % KERNELS;
    gs_window_count(window, 10 + stream, profiles[kernel], blocks);
    for (size_t i = 0; i < open_window.count; i++)
        if (open_window.runners[i].stream == 10 + stream && open_window.runners[i].profile == profiles[kernel])
            open_window.runners[i].blocks += blocks;
}

static void end_probe(gs_window *window, gs_profile_store *store) {
    bool is_over = open_window.count && open_window.is_probe && now_ns - open_window.since_ns >= open_window.least_ns;
    for (size_t i = 0; i < open_window.count; i++)
        is_over &= open_window.runners[i].blocks > 0;
    if (is_over)
        close_window();
    gs_window_end_probe(window, store, now_ns);
}

static void compare(const gs_window *window) {
    assert_int_equal(found.kind, wanted.kind);
    assert_int_equal(found.ns, wanted.ns);
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(found.both[i].profile, wanted.both[i].profile);
        assert_int_equal(found.both[i].sms, wanted.both[i].sms);
        assert_int_equal(found.both[i].blocks, wanted.both[i].blocks);
        assert_int_equal(found.workers[i], wanted.workers[i]);
    }
    assert_int_equal(window->count, open_window.count);
    found = wanted = (struct learned){.kind = NOTHING};
}

static void step(gs_random *random, gs_window *window, gs_profile_store *store, gs_profile *const *profiles,
                 struct decision *decision) {
    static const uint64_t times_us[] = {10, 500, 3999, 4000, 10000, 20000, 50000, 100000};
    gs_decide_options options = {.trial_ns = gs_random_from(random, 0, 1) ? 1 * MS : 30 * MS};
    now_ns += times_us[gs_random_from(random, 0, GS_COUNT(times_us) - 1)] * 1000;
    switch (gs_random_from(random, 0, 7)) {
    case 0:
        close_window();
        gs_window_close(window, store, now_ns);
        break;
    case 1:
        end_probe(window, store);
        break;
    case 2:
        draw_decision(random, profiles, decision);
        follow(&options, decision->contenders, decision->places, decision->count);
        gs_window_follow(window, store, &options, decision->contenders, decision->places, decision->count, now_ns);
        break;
    case 3:
    case 4:
        follow(&options, decision->contenders, decision->places, decision->count);
        gs_window_follow(window, store, &options, decision->contenders, decision->places, decision->count, now_ns);
        break;
    default:
        count_some(random, window, profiles);
    }
    compare(window);
}

TEST(windows_measure_what_the_rules_say) {
    for (uint64_t index = 0; index < 100; index++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 91), index);
        gs_error error;
        gs_profile_store *store = gs_profile_store_open(NULL, "any", 8, &error);
        gs_profile *profiles[KERNELS];
        struct decision decision = {.count = 0};
        gs_window window = {.count = 0};
        now_ns = 1000 * MS;
        open_window = (struct literal){.count = 0};
        memset(pieces, 0, sizeof pieces);
        assert_non_null(store);
        for (uint64_t i = 0; i < KERNELS; i++)
            assert_non_null(kernels[i] = profiles[i] = gs_profile_store_get(store, 100 + i, "k", 1000));
        for (int i = 0; i < STEPS; i++)
            step(&random, &window, store, profiles, &decision);
        close_window();
        gs_window_close(&window, store, now_ns);
        compare(&window);
        for (size_t i = 0; i < KERNELS; i++)
            gs_profile_store_put(store, profiles[i]);
        gs_profile_store_close(store);
    }
}

TEST_MAIN(NULL, NULL)
