/*
 * test_decisions_played.c: decisions played on a simulated GPU, kernel by kernel, in simulated time.
 *
 * Kernels have true curves and true needs of memory bandwidth, which the decider does not know: it learns them from
 * noisy measurements of the play. If kernels side by side need more bandwidth than there is, those that need it are
 * slowed in proportion, and some of the bandwidth is lost. A kernel in its confined form is 2% slower, and one that is
 * resized stands still for a while. For comparison the same clients are played serially, and with the SMs split evenly.
 */
#include "decide_support.h"

#include <math.h>
#include <string.h>

enum { CLIENTS = 6 };

static const double confined_rate = 0.98, lost_when_crowded = 0.2, gap_ns = 4000, measured_ns = 1000000,
                    least_measured_ns = 30000;

struct truth {
    double duration_ns; /* alone, whole */
    double knee;        /* the part of the SMs on which it has its full rate */
    double memory;      /* the part of the bandwidth it needs at its full rate */
    uint64_t blocks;
    uint64_t key;
};

struct client {
    struct truth kernel;
    int64_t launches; /* still to come, with the current one */
    uint32_t weight;
    int32_t priority, cap;
    bool can_confine;
    double arrives_ns; /* when its first launch comes; between launches: the next */
    /* now */
    enum { ABSENT, WAITING, RUNNING } is;
    enum gs_decide_how how;
    int32_t sms;
    double blocks_left, began_ns, waits_since_ns, waited_ns, tenure_ns, stalled_until_ns, served, done_ns;
    bool was_alone; /* since this launch began */
    uint64_t arrival;
    double longest_wait_ns;
    gs_profile *profile;
};

struct play {
    gs_decide_options options;
    gs_profile_store *store;
    gs_random random;
    struct client clients[CLIENTS];
    size_t count;
    double now_ns, look_again_ns, measure_until_ns;
    uint64_t arrivals;
    size_t decisions, resizes, probes;
    double learning_ns; /* spent on probes and trials */
    bool is_learning;
    double serial_ns, serial_done[CLIENTS]; /* while two run whole, or one of them while the other waits */
    gs_mask masks[CLIENTS];
    double dips; /* how far the GPU's clock goes down, for a quarter of the time */
};

/* ---- the truth ---- */

static double share_alone(const struct client *client) {
    double share = fmin(1, (double)client->sms / SMS / client->kernel.knee);
    return client->how == GS_DECIDE_CONFINED ? share * confined_rate : share;
}

/* The clock, as a part of the full one. */
static double clock_at(const struct play *play) {
    return fmod(play->now_ns, 6e8) < 1.5e8 ? 1 - play->dips : 1;
}

/* The rate of each client's kernel. Kernels that run whole on the same SMs share them. */
static void find_rates(const struct play *play, double *rates) {
    double need = 0, wholes = 0;
    for (size_t i = 0; i < play->count; i++)
        wholes +=
            play->clients[i].is == RUNNING && play->clients[i].how == GS_DECIDE_WHOLE && play->clients[i].sms == SMS;
    for (size_t i = 0; i < play->count; i++) {
        const struct client *client = &play->clients[i];
        rates[i] = 0;
        if (client->is != RUNNING || client->stalled_until_ns > play->now_ns)
            continue;
        rates[i] = share_alone(client) / (client->how == GS_DECIDE_WHOLE && client->sms == SMS ? wholes : 1);
        need += rates[i] * client->kernel.memory;
    }
    for (size_t i = 0; i < play->count; i++) {
        const struct truth *kernel = &play->clients[i].kernel;
        double crowded = need * (1 + lost_when_crowded * (need - 1));
        double slowed = need > 1 ? 1 - kernel->memory + kernel->memory / crowded : 1;
        rates[i] *= slowed * clock_at(play) * (double)kernel->blocks / kernel->duration_ns;
    }
}

/* ---- the part of the daemon ---- */

static gs_contender contender_of(const struct play *play, const struct client *client) {
    gs_contender contender = {.profile = client->profile,
                              .client = (uint32_t)(client - play->clients),
                              .priority = client->priority,
                              .weight = client->weight,
                              .cap = client->cap,
                              .arrival = client->arrival,
                              .blocks_left = (uint64_t)ceil(client->blocks_left),
                              .can_confine = client->can_confine,
                              .served = (uint64_t)client->served,
                              .how = client->how,
                              .sms = client->sms};
    contender.state = client->is == RUNNING   ? GS_CONTENDER_RUNS
                      : client->is == WAITING ? GS_CONTENDER_WAITS
                                              : GS_CONTENDER_EXPECTED;
    contender.waited_ns = (int64_t)(client->is == WAITING ? play->now_ns - client->waits_since_ns : client->waited_ns);
    contender.running_ns = client->is == WAITING ? 0 : (int64_t)(play->now_ns - client->tenure_ns);
    return contender;
}

static void follow(struct play *play, struct client *client, const gs_decided_place *placement) {
    bool was_running = client->is == RUNNING;
    if (was_running && (placement->how != client->how || placement->sms != client->sms) &&
        client->how == GS_DECIDE_CONFINED) {
        play->resizes++;
        client->stalled_until_ns = play->now_ns + (double)play->options.resize_ns;
    }
    if (was_running && placement->how == GS_DECIDE_WAIT) {
        client->is = WAITING;
        client->waits_since_ns = play->now_ns;
    } else if (client->is == WAITING && placement->how != GS_DECIDE_WAIT) {
        client->is = RUNNING;
        client->waited_ns = play->now_ns - client->waits_since_ns;
        client->longest_wait_ns = fmax(client->longest_wait_ns, client->waited_ns);
        if (client->waited_ns > 0 || client->how == GS_DECIDE_WAIT)
            client->tenure_ns = play->now_ns;
        client->began_ns = play->now_ns;
        client->was_alone = client->blocks_left == (double)client->kernel.blocks;
    }
    client->how = placement->how;
    client->sms = placement->how == GS_DECIDE_WAIT ? 0 : placement->sms;
}

static void follow_masks(struct play *play) {
    int32_t wanted[CLIENTS] = {0}, sum = 0;
    for (size_t i = 0; i < play->count; i++)
        sum += wanted[i] = play->clients[i].how == GS_DECIDE_CONFINED ? play->clients[i].sms : 0;
    assert_true(gs_decide_masks(SMS, play->count, wanted, play->masks) >= 0);
    int32_t seen = 0;
    for (int32_t sm = 0; sm < SMS; sm++) {
        int users = 0;
        for (size_t i = 0; i < play->count; i++)
            users += gs_mask_has(&play->masks[i], sm);
        assert_true(users <= 1);
        seen += users;
    }
    assert_int_equal(seen, sum);
}

static void decide(struct play *play) {
    gs_contender contenders[CLIENTS] = {{0}};
    gs_decided_place placements[CLIENTS];
    size_t numbers[CLIENTS], count = 0;
    for (size_t i = 0; i < play->count; i++) {
        const struct client *client = &play->clients[i];
        if (client->launches > 0 &&
            (client->is != ABSENT || (client->arrives_ns > play->now_ns && client->how != GS_DECIDE_WAIT))) {
            numbers[count] = i;
            contenders[count++] = contender_of(play, client);
        }
    }
    gs_decision decision = gs_decide(&play->options, play->store, contenders, count, placements);
    play->decisions++;
    play->look_again_ns = decision.look_again_ns < INT64_MAX ? play->now_ns + (double)decision.look_again_ns : INFINITY;
    play->is_learning = false;
    for (size_t i = 0; i < count; i++) {
        play->probes += placements[i].is_probe || placements[i].is_trial;
        play->is_learning |= placements[i].is_probe || placements[i].is_trial;
        follow(play, &play->clients[numbers[i]], &placements[i]);
    }
    play->measure_until_ns = play->now_ns + measured_ns;
    follow_masks(play);
}

/* Adds a measurement of the work since the last event, if that is long enough ago. */
static void measure(struct play *play, const double *done, double ns) {
    size_t running[CLIENTS], count = 0;
    for (size_t i = 0; i < play->count; i++)
        if (play->clients[i].is == RUNNING)
            running[count++] = i;
    for (size_t i = 0; i < count && count > 1; i++)
        play->clients[running[i]].was_alone = false;
    if (ns < least_measured_ns || count == 0 || count > 2)
        return;
    struct client *a = &play->clients[running[0]], *b = &play->clients[running[count - 1]];
    if (a->stalled_until_ns > play->now_ns - ns || b->stalled_until_ns > play->now_ns - ns)
        return;
    double noise_a = plan_random(&play->random, 0.98, 1.02), noise_b = plan_random(&play->random, 0.98, 1.02);
    gs_beside one = {a->profile, a->sms, (uint64_t)(done[running[0]] * noise_a)};
    gs_beside other = {b->profile, b->sms, (uint64_t)(done[running[count - 1]] * noise_b)};
    if (count == 1 && a->how == GS_DECIDE_CONFINED)
        gs_profile_rate(a->profile, a->sms, one.blocks, (uint64_t)ns);
    else if (count == 2 && a->how == GS_DECIDE_CONFINED && b->how == GS_DECIDE_CONFINED && one.blocks && other.blocks)
        gs_profile_store_inter_sm(play->store, &one, &other, (uint64_t)ns);
}

/* Adds a measurement of turns of two clients that run whole, from time to time. */
static void measure_turns(struct play *play, const double *done, double ns) {
    enum { TURNS_NS = 20000000 };
    size_t numbers[CLIENTS], count = 0;
    bool is_confined = false;
    for (size_t i = 0; i < play->count; i++) {
        const struct client *client = &play->clients[i];
        if (client->launches > 0)
            numbers[count++] = i;
        is_confined |= client->is == RUNNING && client->how == GS_DECIDE_CONFINED;
    }
    if (count != 2 || is_confined) {
        play->serial_ns = 0;
        memset(play->serial_done, 0, sizeof play->serial_done);
        return;
    }
    play->serial_ns += ns;
    for (size_t i = 0; i < play->count; i++)
        play->serial_done[i] += done[i];
    if (play->serial_ns < TURNS_NS)
        return;
    gs_beside one = {play->clients[numbers[0]].profile, 0, (uint64_t)play->serial_done[numbers[0]]};
    gs_beside other = {play->clients[numbers[1]].profile, 0, (uint64_t)play->serial_done[numbers[1]]};
    if (one.blocks && other.blocks && one.profile->alone > 0 && other.profile->alone > 0)
        gs_profile_store_serial(play->store, &one, &other, (uint64_t)play->serial_ns);
    play->serial_ns = 0;
    memset(play->serial_done, 0, sizeof play->serial_done);
}

/* ---- time ---- */

static double next_event(const struct play *play, const double *rates) {
    double next = fmin(play->look_again_ns, play->measure_until_ns);
    for (size_t i = 0; i < play->count; i++) {
        const struct client *client = &play->clients[i];
        if (client->is == ABSENT && client->launches > 0)
            next = fmin(next, fmax(client->arrives_ns, play->now_ns));
        if (client->is == RUNNING && client->stalled_until_ns > play->now_ns)
            next = fmin(next, client->stalled_until_ns);
        else if (client->is == RUNNING && rates[i] > 0)
            next = fmin(next, play->now_ns + client->blocks_left / rates[i]);
    }
    return next;
}

static void arrive(struct play *play, struct client *client) {
    client->is = WAITING;
    client->waits_since_ns = play->now_ns;
    client->blocks_left = (double)client->kernel.blocks;
    client->arrival = play->arrivals++;
}

static void end_launch(struct play *play, struct client *client) {
    if (client->how == GS_DECIDE_WHOLE && client->was_alone)
        gs_profile_ran(client->profile, false, client->profile->blocks,
                       (uint64_t)((play->now_ns - client->began_ns) * plan_random(&play->random, 0.98, 1.02)));
    client->is = ABSENT;
    client->launches--;
    client->arrives_ns = play->now_ns + gap_ns;
    client->done_ns = play->now_ns;
    if (client->launches == 0) {
        client->how = GS_DECIDE_WAIT;
        client->sms = 0;
    }
}

/* Advances to the next event. Returns whether it is time to decide again. */
static bool step(struct play *play) {
    double rates[CLIENTS], done[CLIENTS];
    find_rates(play, rates);
    double next = next_event(play, rates), ns = next - play->now_ns;
    assert_true(isfinite(next));
    for (size_t i = 0; i < play->count; i++) {
        struct client *client = &play->clients[i];
        done[i] = rates[i] * ns;
        client->blocks_left -= done[i];
        client->served += client->is == RUNNING ? client->sms * ns : 0;
    }
    play->learning_ns += play->is_learning ? ns : 0;
    play->now_ns = next;
    measure(play, done, ns);
    measure_turns(play, done, ns);
    bool ask = next >= play->look_again_ns || next >= play->measure_until_ns;
    for (size_t i = 0; i < play->count; i++) {
        struct client *client = &play->clients[i];
        if (client->is == RUNNING && client->blocks_left < 1e-6 * (double)client->kernel.blocks) {
            end_launch(play, client);
            ask = true;
        } else if (client->is == ABSENT && client->launches > 0 && client->arrives_ns <= next) {
            arrive(play, client);
            ask = true;
        }
    }
    return ask;
}

static bool is_over(const struct play *play) {
    for (size_t i = 0; i < play->count; i++)
        if (play->clients[i].launches > 0)
            return false;
    return true;
}

static double alone_ns(const struct client *client) {
    return (double)client->launches * (client->kernel.duration_ns + gap_ns);
}

static void play_all(struct play *play, double most_ns) {
    for (size_t i = 0; i < play->count; i++) {
        struct client *client = &play->clients[i];
        client->profile = gs_profile_store_get(play->store, client->kernel.key, "played", client->kernel.blocks);
        assert_non_null(client->profile);
    }
    play->measure_until_ns = play->look_again_ns = INFINITY;
    while (!is_over(play) && play->now_ns < most_ns)
        if (step(play))
            decide(play);
}

/* The same with a fixed split: `first` SMs for the first of two, or, with 0, an even part for each that has launches.
 */
static void split_fixed(struct play *play, int32_t first) {
    play->measure_until_ns = play->look_again_ns = INFINITY;
    while (!is_over(play)) {
        int32_t there = 0;
        for (size_t i = 0; i < play->count; i++)
            there += play->clients[i].launches > 0;
        for (size_t i = 0; i < play->count; i++) {
            struct client *client = &play->clients[i];
            if (client->is == WAITING)
                client->is = RUNNING;
            client->how = GS_DECIDE_CONFINED;
            client->sms = first == 0 || there < 2 ? SMS / there : i == 0 ? first : SMS - first;
            client->was_alone = false;
        }
        double rates[CLIENTS];
        find_rates(play, rates);
        double next = next_event(play, rates), ns = next - play->now_ns;
        play->now_ns = next;
        for (size_t i = 0; i < play->count; i++) {
            struct client *client = &play->clients[i];
            client->blocks_left -= rates[i] * ns;
            if (client->is == RUNNING && client->blocks_left < 1e-6 * (double)client->kernel.blocks)
                end_launch(play, client);
            else if (client->is == ABSENT && client->launches > 0 && client->arrives_ns <= next)
                arrive(play, client);
        }
    }
}

/* ---- plays ---- */

static struct truth random_kernel(gs_random *random, uint64_t key) {
    struct truth kernel = {.key = key, .blocks = (uint64_t)gs_random_from(random, 2000, 200000)};
    kernel.duration_ns = pow(10, plan_random(random, 5.3, 7.3)); /* 0.2 to 20 ms */
    bool needs_memory = gs_random_chance(random, 50);
    kernel.knee = needs_memory ? plan_random(random, 0.3, 0.8) : 1;
    kernel.memory = needs_memory ? plan_random(random, 0.8, 1) : plan_random(random, 0.02, 0.4);
    return kernel;
}

static struct play random_play(gs_random *random, size_t count, double each_ns) {
    struct play play = {.options = gs_decide_defaults(SMS), .count = count, .random = *random};
    for (size_t i = 0; i < count; i++) {
        struct client *client = &play.clients[i];
        *client = (struct client){.kernel = random_kernel(random, i + 1), .weight = 1, .can_confine = true};
        client->launches = (int64_t)ceil(each_ns / client->kernel.duration_ns);
    }
    return play;
}

/* A mean needs two at least. */
static int rounds(int most) {
    return (int)gs_max(plan_rounds(most), 2);
}

/* The best fixed partition of two, found by trying all; turns are one of them. */
static double best_fixed_ns(const struct play *start, double serial_ns) {
    double best = serial_ns;
    for (int32_t first = 4; first < SMS; first += 4) {
        struct play play = *start;
        split_fixed(&play, first);
        best = fmin(best, play.now_ns);
    }
    return best;
}

struct gains {
    double planned, again, evenly, best, worst;
    size_t decisions, resizes;
};

/* Plays the same clients in three ways. Serially they would take `turns_ns`. Apart from the cost of learning and
   resizing, nothing may be lost. */
static void compare(gs_random *random, size_t clients, struct gains *gains) {
    struct play play = random_play(random, clients, 3e8), even = play, again = play;
    double serial_ns = 0;
    for (size_t i = 0; i < clients; i++)
        serial_ns += alone_ns(&play.clients[i]);
    play.store = gs_profile_store_open(NULL, "played", SMS, NULL);
    even.store = gs_profile_store_open(NULL, "played", SMS, NULL);
    for (size_t i = 0; i < clients; i++)
        even.clients[i].profile = gs_profile_store_get(even.store, i + 1, "played", even.clients[i].kernel.blocks);
    play_all(&play, INFINITY);
    double best = clients == 2 ? best_fixed_ns(&even, serial_ns) : 0;
    split_fixed(&even, 0);
    again.store = play.store; /* with what was learned the first time */
    play_all(&again, INFINITY);
    double cost_ns = play.learning_ns + (double)play.resizes * (double)play.options.resize_ns;
    double allowed_ns = serial_ns / confined_rate * (1 + play.options.least_gain) + cost_ns;
    if (play.now_ns > allowed_ns)
        fail_msg("%zu clients took %.1f ms, one after the other %.1f ms, learning %.1f ms, resizing %zu times", clients,
                 play.now_ns / 1e6, serial_ns / 1e6, play.learning_ns / 1e6, play.resizes);
    gains->best += clients == 2 ? serial_ns / best : 0;
    gains->planned += serial_ns / play.now_ns;
    gains->again += serial_ns / again.now_ns;
    gains->evenly += serial_ns / even.now_ns;
    gains->worst = fmin(gains->worst, serial_ns / play.now_ns);
    gains->decisions += play.decisions;
    gains->resizes += play.resizes;
    gs_profile_store_close(play.store);
    gs_profile_store_close(even.store);
}

TEST(plans_are_never_worse_than_turns) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 10);
    print_message("throughput, one after the other being 1; learning included\n");
    print_message("clients   planned   again   evenly split   planned at worst   decisions   resizes\n");
    for (size_t clients = 1; clients <= 6; clients++) {
        struct gains gains = {.worst = INFINITY};
        int count = rounds(20);
        for (int i = 0; i < count; i++)
            compare(&random, clients, &gains);
        print_message("%7zu %9.3f %7.3f %14.3f %18.3f %11zu %9zu\n", clients, gains.planned / count,
                      gains.again / count, gains.evenly / count, gains.worst, gains.decisions / (size_t)count,
                      gains.resizes / (size_t)count);
        if (clients == 2)
            print_message("        (the best of all fixed splits: %.3f)\n", gains.best / count);
    }
}

/* Its kernel is bound by its SMs, so it gains nothing beside another such kernel. */
static struct client plain_client(uint64_t key, double duration_ns, int32_t priority, uint32_t weight) {
    struct client client = {.priority = priority, .weight = weight, .can_confine = true, .launches = INT64_MAX / 2};
    client.kernel = (struct truth){.duration_ns = duration_ns, .knee = 1, .memory = 0.1, .blocks = 20000, .key = key};
    return client;
}

/* Two of a kind, which lose 5% side by side. A dip while turns are measured must not make them split the SMs. */
TEST(changing_clocks_do_not_mislead) {
    for (int first = 0; first < (test_is_brief() ? 2 : 6);
         first++) { /* the second comes at another point of the clock's period each time */
        struct play play = {.options = gs_decide_defaults(SMS), .count = 2, .random = gs_random_at(1, 1), .dips = 0.15};
        play.store = gs_profile_store_open(NULL, "played", SMS, NULL);
        for (size_t i = 0; i < 2; i++) {
            play.clients[i] = plain_client(1, 3e5, 0, 1);
            play.clients[i].kernel.knee = 0.5;
            play.clients[i].kernel.memory = 0.95;
        }
        play.clients[1].arrives_ns = 1.8e9 + first * 1e8;
        play_all(&play, play.clients[1].arrives_ns);
        int64_t before = play.clients[0].launches + play.clients[1].launches;
        double from_ns = play.now_ns;
        play_all(&play, from_ns + 2.4e9);
        int64_t launches = before - play.clients[0].launches - play.clients[1].launches;
        double throughput = (double)launches * 3e5 / (play.now_ns - from_ns), serial = 1 - 0.15 / 4;
        if (throughput < 0.985 * serial)
            fail_msg("%d: a throughput of %.3f, turns give %.3f", first, throughput, serial);
        gs_profile_store_close(play.store);
    }
}

/* Two of a kind that gain from a split. A launch takes the place of the one before it: the turn may change with each
   launch, the SMs of each do not. */
TEST(places_are_kept_from_launch_to_launch) {
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct play play = {.options = gs_decide_defaults(SMS), .count = 2, .random = gs_random_at(seed, 12)};
        play.store = gs_profile_store_open(NULL, "played", SMS, NULL);
        for (size_t i = 0; i < 2; i++) {
            play.clients[i] = plain_client(1, 3e5, 0, 1);
            play.clients[i].kernel.knee = 0.6;
        }
        play_all(&play, 1e9);
        size_t before = play.resizes;
        int64_t launches = play.clients[0].launches + play.clients[1].launches;
        play_all(&play, 2e9);
        launches -= play.clients[0].launches + play.clients[1].launches;
        size_t resizes = play.resizes - before;
        if (resizes > (size_t)launches / 100)
            fail_msg("seed %d: %zu resizes in %ld launches", (int)seed, resizes, (long)launches);
        gs_profile_store_close(play.store);
    }
}

static double longest_wait_ns(const struct play *play, const struct client *client) {
    double waits = client->is == WAITING ? play->now_ns - client->waits_since_ns : 0;
    return fmax(client->longest_wait_ns, waits);
}

/* A client of the lowest priority against clients of higher ones that never stop. Each patience raises its rank by one,
   and then each of the others goes first at most twice more. */
TEST(no_client_starves) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 11);
    double longest = 0;
    for (int round = 0; round < rounds(20); round++) {
        struct play play = {.options = gs_decide_defaults(SMS), .random = random};
        play.count = (size_t)gs_random_from(&random, 2, CLIENTS);
        play.store = gs_profile_store_open(NULL, "played", SMS, NULL);
        play.options.patience_ns = 20000000;
        play.options.slice_ns = 5000000;
        double whole_ns = 0;
        for (size_t i = 0; i < play.count; i++) {
            struct client *client = &play.clients[i];
            *client =
                plain_client(i + 1, pow(10, plan_random(&random, 4.5, 7.3)),
                             i ? (int32_t)gs_random_from(&random, 0, 3) : 0, (uint32_t)gs_random_from(&random, 1, 5));
            client->can_confine = gs_random_chance(&random, 80);
            if (gs_random_chance(&random, 50))
                client->kernel.knee = plan_random(&random, 0.3, 1);
            if (!client->can_confine || client->kernel.duration_ns <= (double)play.options.yield_ns)
                whole_ns = fmax(whole_ns, client->kernel.duration_ns / (client->kernel.knee < 1 ? 0.3 : 0.25));
        }
        play_all(&play, 2e9);
        double turn_ns = (double)play.options.slice_ns + whole_ns + measured_ns;
        double bound = (double)play.options.patience_ns * 4 + (double)play.count * 2 * turn_ns;
        for (size_t i = 0; i < play.count; i++) {
            double waited = longest_wait_ns(&play, &play.clients[i]);
            longest = fmax(longest, waited / bound);
            if (waited > bound)
                fail_msg("round %d: client %zu of %zu waited %.1f ms, the bound is %.1f ms", round, i, play.count,
                         waited / 1e6, bound / 1e6);
        }
        gs_profile_store_close(play.store);
    }
    print_message("the longest wait was %.2f of the bound\n", longest);
}

TEST(turns_go_by_weight) {
    static const double durations_ns[] = {3e5, 5e6, 50e6};
    for (size_t i = 0; i < GS_COUNT(durations_ns); i++) {
        struct play play = {.options = gs_decide_defaults(SMS), .count = 2, .random = gs_random_at(1, i)};
        play.store = gs_profile_store_open(NULL, "played", SMS, NULL);
        play.clients[0] = plain_client(1, durations_ns[i], 0, 3);
        play.clients[1] = plain_client(2, durations_ns[i], 0, 1);
        play_all(&play, 4e9);
        double ratio = play.clients[0].served / play.clients[1].served;
        print_message("kernels of %.1f ms, weights 3 and 1: served %.2f to 1\n", durations_ns[i] / 1e6, ratio);
        assert_true(ratio > 2.4 && ratio < 3.6);
        gs_profile_store_close(play.store);
    }
}

/* A client of higher priority has the GPU nearly to itself, regardless of the others. */
TEST(priorities_are_kept) {
    static const double durations_ns[] = {3e5, 5e6, 50e6};
    for (size_t i = 0; i < GS_COUNT(durations_ns); i++) {
        struct play play = {.options = gs_decide_defaults(SMS), .count = 3, .random = gs_random_at(1, i)};
        play.store = gs_profile_store_open(NULL, "played", SMS, NULL);
        play.clients[0] = plain_client(1, durations_ns[i], 5, 1);
        play.clients[0].launches = (int64_t)(5e8 / durations_ns[i]);
        play.clients[1] = plain_client(2, 3e6, 0, 1);
        play.clients[2] = plain_client(3, 3e5, 0, 1);
        double alone = alone_ns(&play.clients[0]);
        play_all(&play, 1e9);
        print_message("kernels of %.1f ms above others: %.3f of the time alone\n", durations_ns[i] / 1e6,
                      play.clients[0].done_ns / alone);
        assert_int_equal(play.clients[0].launches, 0);
        assert_true(play.clients[0].done_ns < alone * 1.25);
        gs_profile_store_close(play.store);
    }
}

TEST_MAIN(NULL, NULL)
