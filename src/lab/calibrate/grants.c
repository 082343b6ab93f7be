/*
 * grants.c: measures the numbering of blocks of a GPU (see src/model/engine/number.c), and describes it as grants.
 *
 *   groups          a launch with one block for each SM shows the SMs group by group. Each launch begins with
 *                   another group. So two SMs that are adjacent in every launch are of one group, and
 *                   groups that always come before the others are the first ones
 *   between_rounds  launches of several blocks for each SM: a number of grants that explains them all
 *   before_cut      launches that end in the middle of a round, at each SM: the same
 *   clusters        parts of the first groups whose SMs were seen in one cluster, and the most blocks of clusters that
 *                   an SM takes
 *
 * A number of grants beyond the remaining blocks has no effect.
 */
#include "grants.h"

#include <stdlib.h>
#include <string.h>

enum {
    STEPS = 14,          /* of a run that shows groups */
    CHECKS = 6,          /* runs that check the result */
    MOST_GRANTS = 1000,  /* the largest number of grants that a description can have */
    GUESSES_AROUND = 300 /* the search range around the guess */
};

struct session {
    const gs_grants_request *request;
    gs_gpu *gpu;
    gs_shape small; /* a shape of which an SM takes as many blocks as it has block slots */
    int32_t small_per_sm;
    int16_t *ties;       /* the tie order */
    int16_t **sequences; /* the SMs of blocks 0, 1, 2 .. of launches with one block for each SM */
    size_t count, capacity;
    gs_run **rounds; /* see record_rounds */
    size_t round_count;
    gs_grants_found *found;
};

/* ---- runs of launches, each alone on the GPU ---- */

static gs_code add_alone(gs_run *script, const gs_shape *shape, int64_t blocks, gs_error *error) {
    gs_code code = gs_run_add_numbered(script, shape, blocks, error);
    return code == GS_OK ? gs_run_add_exit(script, script->launches.count - 1, error) : code;
}

/* Plays a script and frees it. The caller frees the recording. */
static gs_run *play_plan(const struct session *session, gs_run *script, gs_code code, gs_error *error) {
    static const gs_play_options patient = {.patient = true};
    gs_run *seen = code == GS_OK ? gs_device_play(session->request->device, script, &patient, error) : NULL;
    gs_run_free(script);
    return seen;
}

/* Plays launches of these numbers of blocks, one after the other. */
static gs_run *play_alone(const struct session *session, const gs_shape *shape, const int64_t *blocks, size_t count,
                          gs_error *error) {
    gs_run *script = gs_run_new(error);
    gs_code code = script ? GS_OK : GS_E_MEMORY;
    for (size_t i = 0; i < count && code == GS_OK; i++)
        code = add_alone(script, shape, blocks[i], error);
    return play_plan(session, script, code, error);
}

/* ---- groups ---- */

/* The SMs of the blocks of a launch, if it has one block for each SM. */
static gs_code keep_sequence(struct session *session, const gs_run *run, size_t launch, gs_error *error) {
    int32_t sms = session->gpu->sms;
    const gs_seen *seen = gs_launch_seen(run, launch);
    bool *is_taken = calloc((size_t)sms, sizeof *is_taken);
    int16_t *sequence = calloc((size_t)sms, sizeof *sequence);
    bool is_whole = run->launches.data[launch].blocks == sms;
    for (int32_t i = 0; is_taken && sequence && is_whole && i < sms; i++) {
        int32_t sm = gs_seen_sm(seen, i);
        is_whole = sm >= 0 && sm < sms && !is_taken[sm];
        if (is_whole)
            is_taken[sm] = true;
        sequence[i] = (int16_t)sm;
    }
    bool has_memory = is_taken && sequence &&
                      gs_array_reserve((void **)&session->sequences, session->count, &session->capacity, 1,
                                       sizeof *session->sequences);
    free(is_taken);
    if (has_memory && is_whole)
        session->sequences[session->count++] = sequence;
    else
        free(sequence);
    return has_memory ? GS_OK : gs_fail_memory(error);
}

/* A block on the SM at a place of the tie order, then a launch with one block for each SM. The block moves the turn to
   the group after that of its SM, so over all places each group begins once. */
static gs_code add_step(const struct session *session, gs_run *script, int32_t place, gs_error *error) {
    const gs_shape *filler = &session->request->filler;
    size_t first = script->launches.count;
    gs_code code = place ? gs_run_add_numbered(script, filler, place, error) : GS_OK;
    if (code == GS_OK)
        code = add_alone(script, filler, 1, error);
    if (code == GS_OK && place)
        code = gs_run_add_exit(script, first, error);
    return code == GS_OK ? add_alone(script, filler, session->gpu->sms, error) : code;
}

static gs_code record_sequences(struct session *session, gs_error *error) {
    int32_t sms = session->gpu->sms;
    gs_code code = GS_OK;
    for (int32_t from = 0; from < sms && code == GS_OK; from += STEPS) {
        gs_run *script = gs_run_new(error);
        code = script ? GS_OK : GS_E_MEMORY;
        for (int32_t place = from; place < sms && place < from + STEPS && code == GS_OK; place++)
            code = add_step(session, script, place, error);
        gs_run *run = play_plan(session, script, code, error);
        if (!run)
            return error->code;
        for (size_t i = 0; i < run->launches.count && code == GS_OK; i++)
            code = keep_sequence(session, run, i, error);
        gs_run_free(run);
    }
    return code;
}

enum { NOT_SEEN = -2, VARIES = -1 };

/* By SM: the one that comes next in every sequence, or VARIES. */
static void find_followers(const struct session *session, int16_t *next) {
    int32_t sms = session->gpu->sms;
    for (int32_t sm = 0; sm < sms; sm++)
        next[sm] = NOT_SEEN;
    for (size_t i = 0; i < session->count; i++)
        for (int32_t k = 0; k < sms; k++) {
            int16_t *follower = &next[session->sequences[i][k]];
            int16_t now = k + 1 < sms ? session->sequences[i][k + 1] : VARIES;
            *follower = *follower == NOT_SEEN || *follower == now ? now : VARIES;
        }
}

/* The chains of followers as groups, in the order of the first sequence. The SMs of a group ascend, so a chain is split
   where they do not. */
static void list_chains(const struct session *session, const int16_t *next, gs_sm_groups *groups) {
    int32_t sms = session->gpu->sms;
    for (int32_t k = 0; k < sms; k++) {
        int16_t sm = session->sequences[0][k];
        int16_t last = k ? session->sequences[0][k - 1] : INT16_MAX;
        bool continues = last < sm && next[last] == sm;
        groups->count += !continues;
        groups->sms[k] = sm;
        groups->ends[groups->count - 1] = k + 1;
    }
}

static bool are_groups(const gs_sm_groups *groups) {
    for (int32_t group = 0, at = 0; group < groups->count; at = groups->ends[group++])
        if (groups->ends[group] - at > GS_MAX_GRANT_GROUPS)
            return false;
    return groups->count > 1 && groups->count <= GS_MAX_GRANT_GROUPS;
}

/* Whether blocks are numbered in the order of placement. */
static bool are_as_placed(const struct session *session) {
    for (size_t i = 0; i < session->count; i++)
        if (memcmp(session->sequences[i], session->ties, (size_t)session->gpu->sms * sizeof *session->ties) != 0)
            return false;
    return true;
}

/* Whether the first `count` groups are before the others in every sequence. */
static bool always_first(const struct session *session, const gs_sm_groups *groups, int32_t count) {
    int32_t end = groups->ends[count - 1];
    bool is_first[GS_MAX_SMS] = {false};
    for (int32_t i = 0; i < end; i++)
        is_first[groups->sms[i]] = true;
    for (size_t i = 0; i < session->count; i++)
        for (int32_t k = 0; k < end; k++)
            if (!is_first[session->sequences[i][k]])
                return false;
    return true;
}

/* Rotates groups from `from` to before `to` so that the one with the lowest SM comes first. */
static void turn_groups(gs_sm_groups *groups, int32_t from, int32_t to, int16_t *scratch) {
    int32_t begin = from ? groups->ends[from - 1] : 0, end = to > from ? groups->ends[to - 1] : begin, lowest = from;
    int32_t sizes[GS_MAX_GRANT_GROUPS], at = begin, sms = end - begin;
    for (int32_t i = from; i < to; i++) {
        int32_t first = i ? groups->ends[i - 1] : 0;
        sizes[i - from] = groups->ends[i] - first;
        if (groups->sms[first] < groups->sms[lowest ? groups->ends[lowest - 1] : 0])
            lowest = i;
    }
    if (lowest == from || to <= from)
        return;
    int32_t shift = groups->ends[lowest - 1] - begin;
    for (int32_t i = 0; i < sms; i++)
        scratch[i] = groups->sms[begin + (i + shift) % sms];
    memcpy(groups->sms + begin, scratch, (size_t)sms * sizeof *scratch);
    for (int32_t i = 0; i < to - from; i++) {
        at += sizes[(i + lowest - from) % (to - from)];
        groups->ends[from + i] = at;
    }
}

/* Groups of SMs from the sequences. Without groups, blocks are numbered differently. */
static gs_code find_groups(struct session *session, gs_error *error) {
    gs_grants *grants = &session->gpu->grants;
    size_t sms = (size_t)session->gpu->sms;
    int16_t *next = calloc(sms, sizeof *next);
    grants->groups =
        (gs_sm_groups){calloc(sms, sizeof *grants->groups.sms), calloc(sms, sizeof *grants->groups.ends), 0};
    grants->before_cut = calloc(sms, sizeof *grants->before_cut);
    if (!next || !grants->groups.sms || !grants->groups.ends || !grants->before_cut) {
        free(next);
        return gs_fail_memory(error);
    }
    find_followers(session, next);
    list_chains(session, next, &grants->groups);
    if (are_as_placed(session) || !are_groups(&grants->groups)) {
        grants->groups.count = 0;
    } else {
        for (int32_t count = 1; count < grants->groups.count; count++)
            if (always_first(session, &grants->groups, count))
                grants->first = count;
        turn_groups(&grants->groups, 0, grants->first, next);
        turn_groups(&grants->groups, grants->first, grants->groups.count, next);
    }
    free(next);
    return GS_OK;
}

/* ---- numbers of grants ---- */

/* Whether the description explains the recordings, block by block. */
static gs_code grants_explain(const struct session *session, gs_run *const *runs, size_t count, bool *all,
                              gs_error *error) {
    *all = true;
    for (size_t i = 0; i < count && *all; i++) {
        size_t differs;
        gs_code code = gs_agrees(session->gpu, runs[i], true, &differs, error);
        if (code != GS_OK)
            return code;
        *all = differs == SIZE_MAX;
    }
    return GS_OK;
}

/* Launches of full rounds: they show how many grants are between two rounds. */
static gs_run *play_rounds(const struct session *session, gs_error *error) {
    enum { SIZES = 8 };
    int64_t blocks[SIZES];
    for (int64_t i = 0; i < SIZES; i++)
        blocks[i] =
            session->gpu->sms * gs_max(1, gs_min(session->small_per_sm, i == SIZES - 1 ? INT32_MAX : 2 + i % 5 * i));
    return play_alone(session, &session->small, blocks, SIZES, error);
}

/* Launches that end with the SM at this place of the tie order: after some full rounds, and after a round on the SMs
   that another launch leaves. So a few groups, or many, have pending blocks when the last round is decided. */
static gs_run *play_cut(const struct session *session, int32_t place, gs_error *error) {
    enum { ALONE = 4, BESIDE = 6 };
    int32_t sms = session->gpu->sms, most = session->small_per_sm - 1;
    int64_t rounds[ALONE] = {1, 3, most, 2};
    gs_random random = gs_random_at(2, (uint64_t)place);
    gs_run *script = gs_run_new(error);
    gs_code code = script ? GS_OK : GS_E_MEMORY;
    for (int i = 0; i < ALONE && code == GS_OK; i++)
        code = add_alone(script, &session->small, gs_max(0, gs_min(rounds[i], most)) * sms + place + 1, error);
    for (int i = 0; i < BESIDE && most > 1 && code == GS_OK; i++) {
        int64_t left = gs_random_from(&random, 1, i % 2 ? sms - 1 : gs_min(sms - 1, 12));
        code = gs_run_add_numbered(script, &session->small, sms - left, error);
        if (code == GS_OK)
            code = add_alone(script, &session->small, left + place + 1, error);
        if (code == GS_OK)
            code = gs_run_add_exit(script, script->launches.count - 2, error);
    }
    return play_plan(session, script, code, error);
}

/* Launches of random sizes beside others, to check the result. */
static gs_run *play_pairs(const struct session *session, uint64_t number, gs_error *error) {
    enum { PAIRS = 6 };
    gs_random random = gs_random_at(1, number);
    int64_t most = (int64_t)session->gpu->sms * session->small_per_sm;
    gs_run *script = gs_run_new(error);
    gs_code code = script ? GS_OK : GS_E_MEMORY;
    for (int i = 0; i < PAIRS && code == GS_OK; i++) {
        int64_t first = gs_random_from(&random, 1, gs_max(1, most / 3));
        code = gs_run_add_numbered(script, &session->small, first, error);
        if (code == GS_OK)
            code = add_alone(script, &session->small, gs_random_from(&random, 1, gs_max(1, most - first)), error);
        if (code == GS_OK)
            code = gs_run_add_exit(script, script->launches.count - 2, error);
    }
    return play_plan(session, script, code, error);
}

/* All recordings to which numbers of grants are fitted: full rounds, then cut ones by place, then overlapping ones. */
static gs_code record_rounds(struct session *session, gs_error *error) {
    size_t cuts = (size_t)session->gpu->sms - 1;
    session->rounds = calloc(cuts + CHECKS + 1, sizeof *session->rounds);
    if (!session->rounds)
        return gs_fail_memory(error);
    for (size_t i = 0; i < cuts + CHECKS + 1; i++) {
        session->rounds[i] = i == 0      ? play_rounds(session, error)
                             : i <= cuts ? play_cut(session, (int32_t)i - 1, error)
                                         : play_pairs(session, i, error);
        if (!session->rounds[i])
            return error->code;
        session->round_count++;
    }
    return GS_OK;
}

static gs_code try_cut(struct session *session, gs_run *run, int16_t sm, int64_t value, bool *fits, gs_error *error) {
    *fits = false;
    if (value < 1 || value > MOST_GRANTS)
        return GS_OK;
    session->gpu->grants.before_cut[sm] = (int16_t)value;
    return grants_explain(session, &run, 1, fits, error);
}

/* If a number that is larger by all groups, twice, explains the launches as well, all larger ones do: the round is
   decided when everything before it is handed out. Then that number is taken. */
static gs_code raise_cut(struct session *session, gs_run *run, int16_t sm, int64_t *value, gs_error *error) {
    int64_t more = *value + 2 * (int64_t)session->gpu->grants.groups.count;
    bool fits = false;
    gs_code code = try_cut(session, run, sm, more, &fits, error);
    *value = fits ? more : *value;
    return code;
}

/* The least number that explains the launches, searched around the guess; or a large one, see raise_cut. */
static gs_code fit_cut(struct session *session, gs_run *run, int16_t sm, int16_t *guess, int32_t *unexplained,
                       gs_error *error) {
    bool fits = false, less = true;
    int64_t value = *guess;
    gs_code code = try_cut(session, run, sm, value, &fits, error);
    for (int64_t step = 1; !fits && step <= GUESSES_AROUND && code == GS_OK; step++)
        for (int sign = 1; sign >= -1 && !fits && code == GS_OK; sign -= 2) {
            value = *guess + sign * step;
            code = try_cut(session, run, sm, value, &fits, error);
        }
    *unexplained += !fits;
    while (fits && less && value > 1 && code == GS_OK) {
        code = try_cut(session, run, sm, value - 1, &less, error);
        value -= less;
    }
    if (fits && code == GS_OK)
        code = raise_cut(session, run, sm, &value, error);
    session->gpu->grants.before_cut[sm] = fits ? (int16_t)value : 1;
    *guess = fits ? (int16_t)value : *guess;
    return code;
}

/* Further launches decide what the others have left open. */
static gs_code decide_cuts(struct session *session, gs_error *error) {
    gs_cuts_request request = {.device = session->request->device,
                               .gpu = session->gpu,
                               .small = session->small,
                               .small_per_sm = session->small_per_sm,
                               .ties = session->ties,
                               .runs = session->rounds + 1};
    return session->small_per_sm > 1 ? gs_cuts_decide(&request, &session->found->open, error) : GS_OK;
}

/* A round is cut at the last SM in tie order only if an SM has as much headroom after a block as before. That cannot be
   provoked, so the number of the SM before it is used. */
static void take_last_cut(struct session *session) {
    int16_t *cuts = session->gpu->grants.before_cut;
    int32_t last = session->gpu->sms - 1;
    if (last > 0)
        cuts[session->ties[last]] = cuts[session->ties[last - 1]];
}

/* Fits before_cut for the present between_rounds, and checks the result. */
static gs_code fit_cuts(struct session *session, int32_t *unexplained, gs_error *error) {
    int16_t guess = (int16_t)session->gpu->grants.between_rounds;
    size_t cuts = (size_t)session->gpu->sms - 1;
    gs_code code = GS_OK;
    bool is_right = true;
    *unexplained = session->found->open = 0;
    for (size_t place = 0; place < cuts && code == GS_OK; place++)
        code = fit_cut(session, session->rounds[1 + place], session->ties[place], &guess, unexplained, error);
    if (code == GS_OK && !*unexplained)
        code = decide_cuts(session, error);
    take_last_cut(session);
    if (code == GS_OK)
        code = grants_explain(session, session->rounds + 1 + cuts, CHECKS, &is_right, error);
    *unexplained += !is_right;
    return code;
}

/* Tries all numbers of grants between rounds that explain full rounds, until one explains all launches. If none does,
   the best of them is taken. */
static gs_code find_numbers(struct session *session, gs_error *error) {
    gs_grants *grants = &session->gpu->grants;
    int32_t best = 0, fewest = INT32_MAX, unexplained;
    gs_code code = record_rounds(session, error);
    for (int32_t value = 1; value <= grants->groups.count + 1 && fewest && code == GS_OK; value++) {
        bool fits = false;
        grants->between_rounds = value;
        code = grants_explain(session, session->rounds, 1, &fits, error);
        if (code != GS_OK || !fits)
            continue;
        code = fit_cuts(session, &unexplained, error);
        best = unexplained < fewest ? value : best;
        fewest = (int32_t)gs_min(fewest, unexplained);
    }
    session->found->unexplained = best ? fewest : 0;
    if (code != GS_OK || !best)
        grants->groups.count = 0;
    if (code != GS_OK || !best || !fewest)
        return code;
    grants->between_rounds = best;
    return fit_cuts(session, &unexplained, error);
}

/* ---- clusters ---- */

/* The first groups in parts: neighbors in a group that were seen in one cluster are in one part. */
static gs_code find_parts(struct session *session, gs_error *error) {
    gs_grants *grants = &session->gpu->grants;
    const int16_t *cluster_groups = session->request->cluster_groups;
    int32_t end = grants->first ? grants->groups.ends[grants->first - 1] : 0;
    gs_sm_groups parts = {calloc((size_t)end + 1, sizeof *parts.sms), calloc((size_t)end + 1, sizeof *parts.ends), 0};
    if (!parts.sms || !parts.ends) {
        free(parts.sms);
        free(parts.ends);
        return gs_fail_memory(error);
    }
    for (int32_t group = 0, at = 0; group < grants->first; group++)
        for (int32_t begin = at; at < grants->groups.ends[group]; at++) {
            parts.sms[at] = grants->groups.sms[at];
            bool continues = at > begin && cluster_groups[parts.sms[at]] == cluster_groups[parts.sms[at - 1]];
            parts.count += !continues;
            parts.ends[parts.count - 1] = at + 1;
        }
    grants->cluster_first = parts;
    return GS_OK;
}

/* The most blocks of clusters that an SM takes, if it has headroom for many. */
static gs_code find_most_blocks(struct session *session, gs_error *error) {
    gs_launch launch = gs_launch_default();
    int32_t on_sm[GS_MAX_SMS] = {0}, most = 0;
    launch.shape = session->small;
    launch.cluster = 2;
    launch.blocks = (int64_t)session->gpu->sms / 2 * 2 * session->small_per_sm;
    launch.kernel = strdup("k0");
    gs_run *script = gs_run_new(error);
    gs_code code = script && launch.kernel ? gs_run_add_launch(script, &launch, error) : gs_fail_memory(error);
    gs_run *seen = play_plan(session, script, code, error);
    if (!seen)
        return error->code;
    for (int64_t block = 0; block < launch.blocks; block++) {
        int32_t sm = gs_seen_sm(seen->events.data[0].seen, block);
        if (sm >= 0 && sm < session->gpu->sms)
            most = (int32_t)gs_max(most, ++on_sm[sm]);
    }
    gs_run_free(seen);
    session->gpu->grants.cluster_blocks_per_sm = most;
    return GS_OK;
}

static bool are_whole_tpcs(const gs_sm_groups *groups) {
    for (int32_t group = 0, at = 0; group < groups->count; at = groups->ends[group++])
        for (int32_t i = at; i < groups->ends[group]; i += 2)
            if (groups->sms[i] % 2 || i + 1 == groups->ends[group] || groups->sms[i + 1] != groups->sms[i] + 1)
                return false;
    return true;
}

static gs_code find_clusters(struct session *session, gs_error *error) {
    gs_grants *grants = &session->gpu->grants;
    if (!session->request->cluster_groups || session->gpu->sms_per_tpc != 2 || !are_whole_tpcs(&grants->groups))
        return GS_OK;
    gs_code code = find_parts(session, error);
    if (code == GS_OK && are_whole_tpcs(&grants->cluster_first))
        return find_most_blocks(session, error);
    free(grants->cluster_first.sms);
    free(grants->cluster_first.ends);
    grants->cluster_first = (gs_sm_groups){0};
    return code;
}

/* ---- the whole ---- */

static gs_code begin_grants(struct session *session, gs_error *error) {
    const gs_gpu *gpu = session->gpu;
    gs_occupancy occupancy;
    session->small = gs_shape_of(gpu->limits.warp_threads, gs_generated_registers(0), 0);
    gs_occupancy_of(gpu, &session->small, &occupancy, NULL);
    session->small_per_sm = occupancy.blocks;
    session->ties = calloc((size_t)gpu->sms, sizeof *session->ties);
    if (!session->ties)
        return gs_fail_memory(error);
    gs_gpu_tie_order(gpu, session->ties);
    return GS_OK;
}

static gs_code measure_grants(struct session *session, gs_error *error) {
    int numbering = session->gpu->mechanisms.numbering;
    gs_grants *grants = &session->gpu->grants;
    gs_code code = begin_grants(session, error);
    if (code == GS_OK)
        code = record_sequences(session, error);
    if (code != GS_OK || !session->count)
        return code;
    code = find_groups(session, error);
    session->gpu->mechanisms.numbering = GS_NUMBERED_BY_GRANT;
    for (int32_t sm = 0; code == GS_OK && sm < session->gpu->sms; sm++)
        grants->before_cut[sm] = 1;
    if (code == GS_OK && grants->groups.count)
        code = find_numbers(session, error);
    if (code == GS_OK && grants->groups.count)
        code = find_clusters(session, error);
    session->gpu->mechanisms.numbering = numbering;
    return code;
}

gs_code gs_grants_measure(const gs_grants_request *request, gs_grants_found *found, gs_error *error) {
    struct session session = {.request = request, .gpu = request->gpu, .found = found};
    *found = (gs_grants_found){0};
    gs_code code = measure_grants(&session, error);
    found->groups = request->gpu->grants.groups.count;
    if (!found->groups)
        gs_gpu_drop_grants(request->gpu);
    for (size_t i = 0; i < session.count; i++)
        free(session.sequences[i]);
    for (size_t i = 0; i < session.round_count; i++)
        gs_run_free(session.rounds[i]);
    free(session.sequences);
    free(session.rounds);
    free(session.ties);
    return code;
}

/* ---- numbers that launches on an idle GPU leave open ---- */

/* How many of the recordings the description explains block by block. */
static gs_code count_explained(const gs_gpu *gpu, gs_run *const *runs, size_t count, size_t *explained,
                               gs_error *error) {
    *explained = 0;
    for (size_t i = 0; i < count; i++) {
        size_t differs;
        gs_code code = gs_agrees(gpu, runs[i], true, &differs, error);
        if (code != GS_OK)
            return code;
        *explained += differs == SIZE_MAX;
    }
    return GS_OK;
}

/* Tries other numbers for one SM; keeps the first that explains more. */
static gs_code refine_cut(gs_gpu *gpu, int32_t sm, gs_run *const *runs, size_t count, size_t *explained,
                          gs_error *error) {
    int16_t *cut = &gpu->grants.before_cut[sm], was = *cut;
    int64_t most = 2 * (int64_t)gpu->grants.groups.count + was;
    for (int64_t value = 1; value <= most && *explained < count; value++) {
        size_t now = 0;
        *cut = (int16_t)value;
        gs_code code = value == was ? GS_OK : count_explained(gpu, runs, count, &now, error);
        if (code != GS_OK)
            return code;
        if (now > *explained) {
            *explained = now;
            return GS_OK;
        }
    }
    *cut = was;
    return GS_OK;
}

gs_code gs_grants_refine(gs_gpu *gpu, gs_run *const *runs, size_t count, gs_error *error) {
    size_t explained = 0, before;
    gs_code code = count_explained(gpu, runs, count, &explained, error);
    do {
        before = explained;
        for (int32_t sm = 0; sm < gpu->sms && explained < count && code == GS_OK; sm++)
            code = refine_cut(gpu, sm, runs, count, &explained, error);
    } while (explained > before && explained < count && code == GS_OK);
    return code;
}
