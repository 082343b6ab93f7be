/*
 * cuts.c: decides numbers of grants before cut rounds that the launches of grants.c leave open.
 *
 * After these launches several numbers can explain the observations of an SM. Then random launches are drawn until two
 * of the numbers differ on one: such a run is recorded, and numbers that do not explain it are dropped. If none is
 * found in TRIES runs, the numbers hardly differ, and the one nearest to that of the neighbors in tie order is taken,
 * or, if these are open too, the one found by grants.c.
 */
#include "grants.h"

#include <stdlib.h>
#include <string.h>

enum { TRIES = 24, MOST_PLAYS = 6, LAUNCHES = 6, MOST_NUMBERS = 1024 };

struct session {
    const gs_cuts_request *request;
    gs_gpu *gpu;
    int16_t *cut;  /* of the current SM */
    int64_t place; /* of that SM in tie order */
    int16_t given; /* the number that grants.c has found for it */
    int16_t *open; /* numbers that explain the observations */
    size_t count;
    int64_t most; /* the largest number to try */
};

/* ---- runs ---- */

/* A launch that leaves some SMs of its last round, and beside it one that ends with the SM at `place`: a round on these
   SMs, full rounds, and a cut one. */
static gs_code add_pair(const struct session *session, gs_random *random, gs_run *script, gs_error *error) {
    int64_t sms = session->gpu->sms, most = session->request->small_per_sm - 2, first = script->launches.count;
    int64_t left = gs_random_from(random, 1, gs_random_chance(random, 50) ? gs_min(sms - 1, 12) : sms - 1);
    int64_t below = gs_random_from(random, 0, gs_min(2, most)), full = most - below;
    full = gs_random_from(random, 0, gs_random_chance(random, 50) ? gs_min(3, full) : full);
    gs_code code = gs_run_add_numbered(script, &session->request->small, below * sms + sms - left, error);
    if (code == GS_OK)
        code = gs_run_add_numbered(script, &session->request->small, left + full * sms + session->place + 1, error);
    if (code == GS_OK)
        code = gs_run_add_exit(script, (size_t)first + 1, error);
    return code == GS_OK ? gs_run_add_exit(script, (size_t)first, error) : code;
}

static gs_run *draw_run(const struct session *session, uint64_t number, gs_error *error) {
    gs_random random = gs_random_at(3 + (uint64_t)session->place, number);
    gs_run *script = gs_run_new(error);
    gs_code code = script ? GS_OK : GS_E_MEMORY;
    for (int i = 0; i < LAUNCHES && code == GS_OK; i++)
        code = add_pair(session, &random, script, error);
    if (code == GS_OK)
        return script;
    gs_run_free(script);
    return NULL;
}

/* ---- numbers ---- */

static bool is_placed_alike(const gs_run *one, const gs_run *two) {
    for (size_t i = 0; i < one->launches.count; i++) {
        const gs_seen *a = gs_launch_seen(one, i);
        const gs_seen *b = gs_launch_seen(two, i);
        for (int64_t block = 0; block < one->launches.data[i].blocks; block++)
            if (gs_seen_sm(a, block) != gs_seen_sm(b, block))
                return false;
    }
    return true;
}

static gs_run *predict_candidate(struct session *session, size_t which, int32_t turn, const gs_run *script,
                                 gs_error *error) {
    gs_predict_options options = {.turn = turn};
    *session->cut = session->open[which];
    return gs_predict(session->gpu, script, &options, error);
}

/* Whether the lowest open number and one of the others, in the middle or the highest, differ on a run. */
static gs_code predictions_differ(struct session *session, const gs_run *script, uint64_t number, bool *differ,
                                  gs_error *error) {
    int32_t turn = (int32_t)(number % (uint64_t)gs_gpu_turns(session->gpu));
    const size_t others[] = {session->count / 2, session->count - 1, 1};
    gs_run *lowest = predict_candidate(session, 0, turn, script, error);
    gs_code code = lowest ? GS_OK : error->code;
    *differ = false;
    for (size_t i = 0; i < GS_COUNT(others) && !*differ && code == GS_OK; i++) {
        gs_run *other = predict_candidate(session, others[i], turn, script, error);
        code = other ? GS_OK : error->code;
        *differ = other && !is_placed_alike(lowest, other);
        gs_run_free(other);
    }
    gs_run_free(lowest);
    return code;
}

/* Drops the numbers that do not explain the recording. If none explains it, all stay: the cause is something else. */
static gs_code drop_disagreeing(struct session *session, const gs_run *run, gs_error *error) {
    size_t left = 0, wrong;
    int16_t kept[MOST_NUMBERS];
    for (size_t i = 0; i < session->count; i++) {
        *session->cut = session->open[i];
        gs_code code = gs_agrees(session->gpu, run, true, &wrong, error);
        if (code != GS_OK)
            return code;
        if (wrong == SIZE_MAX)
            kept[left++] = session->open[i];
    }
    if (left) {
        memcpy(session->open, kept, left * sizeof *kept);
        session->count = left;
    }
    return GS_OK;
}

static gs_code play_and_drop(struct session *session, const gs_run *script, gs_error *error) {
    static const gs_play_options patient = {.patient = true};
    gs_run *run = gs_device_play(session->request->device, script, &patient, error);
    gs_code code = run ? drop_disagreeing(session, run, error) : error->code;
    gs_run_free(run);
    return code;
}

static gs_code decide_cut(struct session *session, gs_error *error) {
    gs_code code = GS_OK;
    for (uint64_t i = 0, plays = 0; i < TRIES && plays < MOST_PLAYS && session->count > 1 && code == GS_OK; i++) {
        gs_run *script = draw_run(session, i, error);
        bool differ = false;
        code = script ? predictions_differ(session, script, i, &differ, error) : GS_E_MEMORY;
        if (code == GS_OK && differ) {
            code = play_and_drop(session, script, error);
            plays++;
        }
        gs_run_free(script);
    }
    return code;
}

/* ---- all SMs ---- */

/* Finds the open numbers of the SM at a place of the tie order. The launches of grants.c have given it the least one,
   or a large one; if the next one explains them too, there are more. */
static gs_code look_at(struct session *session, int64_t place, gs_error *error) {
    const gs_run *run = session->request->runs[place];
    size_t wrong = 0;
    session->place = place;
    session->cut = &session->gpu->grants.before_cut[session->request->ties[place]];
    session->given = session->open[0] = (*session->cut)++;
    session->count = 1;
    gs_code code = gs_agrees(session->gpu, run, true, &wrong, error);
    *session->cut = session->open[0];
    if (code != GS_OK || wrong != SIZE_MAX)
        return code;
    session->count = 0;
    for (int64_t value = 1; value <= session->most; value++)
        session->open[session->count++] = (int16_t)value;
    code = drop_disagreeing(session, run, error);
    return code == GS_OK ? decide_cut(session, error) : code;
}

static int16_t given_or_least(const struct session *session) {
    for (size_t i = 0; i < session->count; i++)
        if (session->open[i] == session->given)
            return session->given;
    return session->open[0];
}

/* The decided number nearest to a place; 0: none. */
static int16_t nearest_decided(const int16_t *decided, int64_t places, int64_t place) {
    for (int64_t away = 1; away < places; away++) {
        int64_t before = place - away, after = place + away;
        if (after < places && decided[after])
            return decided[after];
        if (before >= 0 && decided[before])
            return decided[before];
    }
    return 0;
}

static int16_t nearest_open(const bool *is_open, int64_t most, int16_t wanted) {
    int64_t best = 0;
    for (int64_t value = 1; value <= most; value++)
        if (is_open[value] && (!best || llabs(value - wanted) < llabs(best - wanted)))
            best = value;
    return (int16_t)best;
}

/* Checks all SMs, and then decides those with several numbers: the one nearest to that of their neighbors. */
static gs_code decide_all(struct session *session, int16_t *decided, bool *are_open, int32_t *open, gs_error *error) {
    int64_t places = session->gpu->sms - 1, row = session->most + 1;
    const int16_t *ties = session->request->ties;
    gs_code code = GS_OK;
    for (int64_t place = 0; place < places && code == GS_OK; place++) {
        code = look_at(session, place, error);
        decided[place] = session->count == 1 ? session->open[0] : 0;
        *open += session->count > 1;
        *session->cut = given_or_least(session);
        for (size_t i = 0; i < session->count; i++)
            are_open[place * row + session->open[i]] = true;
    }
    for (int64_t place = 0; place < places && code == GS_OK; place++)
        if (!decided[place] && nearest_decided(decided, places, place))
            session->gpu->grants.before_cut[ties[place]] =
                nearest_open(are_open + place * row, session->most, nearest_decided(decided, places, place));
    return code;
}

gs_code gs_cuts_decide(const gs_cuts_request *request, int32_t *open, gs_error *error) {
    gs_gpu *gpu = request->gpu;
    struct session session = {.request = request, .gpu = gpu};
    for (int32_t sm = 0; sm < gpu->sms; sm++)
        session.most = gs_max(session.most, gpu->grants.before_cut[sm]);
    session.most = gs_min(session.most + 2 * gpu->grants.groups.count, MOST_NUMBERS - 1);
    session.open = calloc(MOST_NUMBERS, sizeof *session.open);
    int16_t *decided = calloc((size_t)gpu->sms, sizeof *decided);
    bool *are_open = calloc((size_t)gpu->sms * (size_t)(session.most + 1), sizeof *are_open);
    bool has_memory = session.open && decided && are_open;
    gs_code code = has_memory ? decide_all(&session, decided, are_open, open, error) : gs_fail_memory(error);
    free(session.open);
    free(decided);
    free(are_open);
    return code;
}
