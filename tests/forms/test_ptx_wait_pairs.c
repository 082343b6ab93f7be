/*
 * test_ptx_wait_pairs.c: kernels with two kinds of waits, decided by trying all orders of their steps.
 *
 * Each kind is safe alone: a block waits for one with a lower number, or with a lower ticket, for the holder of a lock,
 * or for the host, which waits until the blocks that have begun are through with the other kind. A program has the
 * steps of two kinds, in any order that keeps those of each kind. It is written as PTX, which reshape accepts; and all
 * its states are visited here, with all blocks at once, and with fewer worker blocks than blocks. If blocks can be
 * stuck only with fewer worker blocks, the form would hang. This model shares no code with the analysis.
 */
#include "test.h"

#include "kernels/forms/forms.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 3, MOST_STEPS = 6, MOST_STATES = 1 << 16 };

enum action { TAKE, SET, WAIT, WAIT_SERVED, SERVE, LOCK, UNLOCK, BEGIN, WAIT_TOLD, WAIT_OWN, WAIT_TOKEN, WAIT_KERNEL };

/* A kind of waits: what its steps do, in order. A number is a ticket, or that of the block. */
static const struct {
    const char *name;
    bool by_ticket;
    int count;
    enum action actions[3];
} kinds[] = {
    {"tells, then looks back", false, 2, {SET, WAIT}},
    {"looks back, then tells", false, 2, {WAIT, SET}},
    {"tells, then looks back, by tickets", true, 3, {TAKE, SET, WAIT}},
    {"looks back, then tells, by tickets", true, 3, {TAKE, WAIT, SET}},
    {"lock", false, 2, {LOCK, UNLOCK}},
    {"lock with tickets", true, 3, {TAKE, WAIT_SERVED, SERVE}},
    {"tells the host, then waits for it", false, 2, {BEGIN, WAIT_TOLD}},
    {"tells the host, then waits for an answer in its own word", false, 2, {BEGIN, WAIT_OWN}},
    {"tells the host, then waits for a token", false, 2, {BEGIN, WAIT_TOKEN}},
    {"tells the kernel before, then waits for it", false, 2, {BEGIN, WAIT_KERNEL}},
};

struct program {
    int kinds[2], count;
    struct {
        int which; /* of the two */
        enum action action;
    } steps[MOST_STEPS];
};

/* ---- the model ---- */

struct worker {
    uint8_t block, after, at; /* the block, how many of the task follow, the next step; BLOCKS: none */
    uint8_t tickets[2];
};

struct state {
    struct worker workers[BLOCKS];
    uint8_t next; /* of the queue */
    uint8_t set[2], taken[2], served[2], is_locked[2];
    uint8_t begun[2], through[2],
        is_told[2]; /* blocks that the host knows, those through with a kind; the host's word */
};

struct search {
    const struct program *program;
    int workers, most_task;
    struct state *states; /* visited, by hash; and those that were not left yet */
    uint8_t *is_used;
    struct state *open;
    size_t open_count;
};

static void visit(struct search *search, const struct state *state) {
    const uint8_t *bytes = (const uint8_t *)state;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof *state; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    uint32_t at = (hash ^ hash >> 16) % MOST_STATES;
    while (search->is_used[at] && memcmp(&search->states[at], state, sizeof *state) != 0)
        at = (at + 1) % MOST_STATES;
    if (search->is_used[at])
        return;
    assert_true(search->open_count < MOST_STATES / 2);
    search->is_used[at] = 1;
    search->states[at] = search->open[search->open_count++] = *state;
}

static bool is_last_of_kind(const struct program *program, int at) {
    for (int i = at + 1; i < program->count; i++)
        if (program->steps[i].which == program->steps[at].which)
            return false;
    return true;
}

/* The host writes a word when the blocks that it knows are through with the other kind. */
static int let_host_tell(struct search *search, const struct state *from) {
    int count = 0;
    for (int which = 0; which < 2; which++) {
        struct state to = *from;
        if (from->is_told[which] || !from->begun[which] || from->begun[which] & ~from->through[1 - which])
            continue;
        to.is_told[which] = 1;
        visit(search, &to);
        count++;
    }
    return count;
}

/* Whether a worker block can do its next step; it is done then. */
static bool step(const struct search *search, struct state *state, struct worker *worker) {
    int which = search->program->steps[worker->at].which;
    uint8_t number = kinds[search->program->kinds[which]].by_ticket ? worker->tickets[which] : worker->block;
    bool can = true;
    switch (search->program->steps[worker->at].action) {
    case TAKE:
        worker->tickets[which] = state->taken[which]++;
        break;
    case SET:
        state->set[which] |= (uint8_t)(1 << number);
        break;
    case WAIT:
        can = number == 0 || state->set[which] >> (number - 1) & 1;
        break;
    case WAIT_SERVED:
        can = state->served[which] == number;
        break;
    case SERVE:
        state->served[which]++;
        break;
    case LOCK:
        can = !state->is_locked[which];
        state->is_locked[which] = 1;
        break;
    case UNLOCK:
        state->is_locked[which] = 0;
        break;
    case BEGIN:
        state->begun[which] |= (uint8_t)(1 << number);
        break;
    case WAIT_TOLD:
    case WAIT_OWN:
    case WAIT_TOKEN:
    case WAIT_KERNEL:
        can = state->is_told[which];
        break;
    }
    if (is_last_of_kind(search->program, worker->at))
        state->through[which] |= (uint8_t)(1 << worker->block);
    worker->at++;
    if (worker->at < search->program->count)
        return can;
    worker->block = worker->after ? (uint8_t)(worker->block + 1) : BLOCKS;
    worker->after = worker->after ? (uint8_t)(worker->after - 1) : 0;
    worker->at = worker->tickets[0] = worker->tickets[1] = 0;
    return can;
}

/* Visits what comes after a state; returns how many worker blocks could go on. */
static int leave(struct search *search, const struct state *from) {
    int count = let_host_tell(search, from);
    for (int w = 0; w < search->workers; w++) {
        struct state to = *from;
        if (from->workers[w].block < BLOCKS) {
            if (step(search, &to, &to.workers[w])) {
                visit(search, &to);
                count++;
            }
            continue;
        }
        for (int size = 1; size <= search->most_task && from->next + size <= BLOCKS; size++) {
            to = *from;
            to.workers[w].block = from->next;
            to.workers[w].after = (uint8_t)(size - 1);
            to.next = (uint8_t)(from->next + size);
            visit(search, &to);
            count++;
        }
    }
    return count;
}

/* Whether worker blocks with tasks of at most so many blocks may wait for each other forever. */
static bool may_be_stuck(const struct program *program, int workers, int most_task) {
    struct search search = {.program = program, .workers = workers, .most_task = most_task};
    struct state first = {.next = 0};
    bool is_stuck = false;
    search.states = calloc(MOST_STATES, sizeof *search.states);
    search.open = calloc(MOST_STATES, sizeof *search.open);
    search.is_used = calloc(MOST_STATES, 1);
    assert_true(search.states && search.open && search.is_used);
    for (int w = 0; w < BLOCKS; w++)
        first.workers[w].block = BLOCKS;
    visit(&search, &first);
    while (search.open_count && !is_stuck) {
        struct state state = search.open[--search.open_count];
        bool is_idle = true;
        for (int w = 0; w < workers; w++)
            is_idle = is_idle && state.workers[w].block == BLOCKS;
        is_stuck = !leave(&search, &state) && !is_idle;
    }
    free(search.states);
    free(search.open);
    free(search.is_used);
    return is_stuck;
}

/* ---- the kernel ---- */

static void put_step(gs_text *into, const struct program *program, int at) {
    int w = program->steps[at].which;
    bool by_ticket = kinds[program->kinds[w]].by_ticket;
    const char *number = by_ticket ? "t" : "b";
    switch (program->steps[at].action) {
    case TAKE:
        gs_text_add(into, "atom.global.add.u32 %%t%d, [taken%d], 1; mad.wide.u32 %%at%d, %%t%d, 4, %%base%d;\n", w, w,
                    w, w, w);
        break;
    case SET:
        gs_text_add(into, "st.release.gpu.global.u32 [%%at%d], 1;\n", w);
        break;
    case WAIT:
        gs_text_add(into, "setp.eq.u32 %%p1, %%%s%d, 0; @%%p1 bra past%d;\n", number, w, at);
        gs_text_add(into, "wait%d: ld.acquire.gpu.global.u32 %%v, [%%at%d+-4]; setp.eq.u32 %%p1, %%v, 0;", at, w);
        gs_text_add(into, " @%%p1 bra wait%d;\npast%d:\n", at, at);
        break;
    case WAIT_SERVED:
        gs_text_add(into, "wait%d: ld.acquire.gpu.global.u32 %%v, [served%d]; setp.ne.u32 %%p1, %%v, %%t%d;", at, w, w);
        gs_text_add(into, " @%%p1 bra wait%d;\n", at);
        break;
    case SERVE:
        gs_text_add(into, "red.release.gpu.global.add.u32 [served%d], 1;\n", w);
        break;
    case LOCK:
        gs_text_add(into, "wait%d: atom.acquire.gpu.global.cas.b32 %%v, [lock%d], 0, 1; setp.ne.u32 %%p1, %%v, 0;", at,
                    w);
        gs_text_add(into, " @%%p1 bra wait%d;\n", at);
        break;
    case UNLOCK:
        gs_text_add(into, "st.release.gpu.global.u32 [lock%d], 0;\n", w);
        break;
    case BEGIN:
        gs_text_add(into, "st.release.sys.global.u32 [%%at%d], 1;\n", w);
        break;
    case WAIT_TOLD:
        gs_text_add(into, "wait%d: ld.acquire.sys.global.u32 %%v, [told%d]; setp.eq.u32 %%p1, %%v, 0;", at, w);
        gs_text_add(into, " @%%p1 bra wait%d;\n", at);
        break;
    case WAIT_OWN:
        gs_text_add(into, "wait%d: ld.acquire.sys.global.u32 %%v, [%%at%d]; setp.ne.u32 %%p1, %%v, 2;", at, w);
        gs_text_add(into, " @%%p1 bra wait%d;\n", at);
        break;
    case WAIT_TOKEN:
        gs_text_add(into, "wait%d: atom.acquire.sys.global.cas.b32 %%v, [told%d], 1, 0; setp.ne.u32 %%p1, %%v, 1;", at,
                    w);
        gs_text_add(into, " @%%p1 bra wait%d;\n", at);
        break;
    case WAIT_KERNEL:
        gs_text_add(into, "griddepcontrol.wait;\n");
        break;
    }
}

/* Makes the form of a program; says whether its tasks have one block. */
static bool form_of(const struct program *program) {
    gs_text text = {0};
    gs_ptx_module module;
    gs_ptx_options options = {.form = GS_FORM_PERSISTENT};
    gs_ptx_form form = {.needs_queue = false};
    gs_error error = {.message = ""};
    gs_text_add(&text, ".version 8.0\n.target sm_90\n.address_size 64\n");
    for (int w = 0; w < 2; w++)
        gs_text_add(&text, ".global .u32 set%d[64]; .global .u32 taken%d, served%d, lock%d, told%d;\n", w, w, w, w, w);
    gs_text_add(&text, ".visible .entry k()\n{\n.reg .pred %%p<2>; .reg .b32 %%v, %%t<2>, %%b<2>;\n"
                       ".reg .b64 %%at<2>, %%base<2>;\n");
    for (int w = 0; w < 2; w++) {
        gs_text_add(&text, "mov.u32 %%b%d, %%ctaid.x; mov.u64 %%base%d, set%d;\n", w, w, w);
        if (!kinds[program->kinds[w]].by_ticket)
            gs_text_add(&text, "mad.wide.u32 %%at%d, %%b%d, 4, %%base%d;\n", w, w, w);
    }
    for (int i = 0; i < program->count; i++)
        put_step(&text, program, i);
    gs_text_add(&text, "ret;\n}\n");
    assert_int_equal(gs_ptx_read(&module, "k.ptx", text.data, text.count, &error), GS_OK);
    if (gs_ptx_reshape(&module, 0, &options, NULL, &form, &error) != GS_OK)
        fail_msg("%ld: %s\n%s", error.line, error.message, text.data);
    gs_ptx_free(&module);
    gs_text_free(&text);
    return form.takes_single;
}

/* ---- all programs ---- */

static struct { int programs, stuck, would_hang, single; } counts;

static void try_program(const struct program *program) {
    bool takes_single = form_of(program);
    counts.programs++;
    counts.single += takes_single;
    if (may_be_stuck(program, BLOCKS, 1)) {
        counts.stuck++;
        return;
    }
    counts.would_hang += may_be_stuck(program, 2, 2);
    for (int workers = 1; workers < BLOCKS; workers++)
        if (may_be_stuck(program, workers, takes_single ? 1 : 3))
            fail_msg("with %d worker blocks: %s; %s", workers, kinds[program->kinds[0]].name,
                     kinds[program->kinds[1]].name);
}

/* Adds the steps of both kinds in all orders; `done` are in the program. */
static void mix(struct program *program, const int done[2]) {
    bool is_whole = true;
    for (int which = 0; which < 2; which++) {
        int kind = program->kinds[which], next[2] = {done[0], done[1]};
        if (done[which] == kinds[kind].count)
            continue;
        is_whole = false;
        program->steps[program->count].which = which;
        program->steps[program->count++].action = kinds[kind].actions[next[which]++];
        mix(program, next);
        program->count--;
    }
    if (is_whole)
        try_program(program);
}

TEST(two_kinds_of_waits_never_wait_for_each_other) {
    static const int none[2];
    for (size_t i = 0; i < GS_COUNT(kinds); i++)
        for (size_t k = i; k < GS_COUNT(kinds); k++)
            mix(&(struct program){.kinds = {(int)i, (int)k}}, none);
    /* the model tells them apart */
    print_message("%d programs: %d are stuck themselves, %d would be in tasks of two, %d take single blocks\n",
                  counts.programs, counts.stuck, counts.would_hang, counts.single);
    assert_true(counts.would_hang > 10 && counts.single > counts.would_hang && counts.single < counts.programs);
}

TEST_MAIN(NULL, NULL)
