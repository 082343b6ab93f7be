/*
 * schedule.c: one schedule, cycle by cycle.
 *
 * A schedule has the cycle in which each instruction of each warp is issued. gs_schedule_play makes the two schedules
 * of Figure 3: in each cycle the warps are sorted, and each, in this order, is selected if there is a place for it. So
 * the schedule is work-conserving. For a fair one, the warps are sorted by sub-block first.
 */
#include "bound.h"

#include <stdlib.h>
#include <string.h>

struct player {
    const gs_flat *flat;
    gs_order_rule rule;
    bool fair;
    int64_t warps, ended;
    int32_t *done;  /* of each warp: instructions that were issued */
    int32_t *ready; /* of each warp: the first cycle in which it can continue */
    int64_t *order; /* the warps, sorted */
    gs_schedule *schedule;
};

static void play_clear(struct player *player) {
    free(player->done);
    free(player->ready);
    free(player->order);
}

static bool goes_before(const struct player *player, int64_t a, int64_t b) {
    int32_t left = player->done[a], right = player->done[b];
    bool both_run = left < player->flat->instructions && right < player->flat->instructions;
    if (player->fair && both_run && player->flat->sub_block[left] != player->flat->sub_block[right])
        return player->flat->sub_block[left] < player->flat->sub_block[right];
    if (player->rule == GS_ROUND_ROBIN_WARPS && left != right)
        return left < right;
    return a < b;
}

/* Insertion sort: the order changes little from cycle to cycle. */
static void put_in_order(struct player *player) {
    for (int64_t i = 1; i < player->warps; i++) {
        int64_t moving = player->order[i], at = i;
        for (; at && goes_before(player, moving, player->order[at - 1]); at--)
            player->order[at] = player->order[at - 1];
        player->order[at] = moving;
    }
}

/* The places of each unit that are free in this cycle. */
static void count_free(const struct player *player, int32_t cycle, int64_t *free_places) {
    const gs_program *program = player->flat->program;
    for (size_t i = 0; i < program->units.count; i++)
        free_places[i] = program->units.data[i].warps;
    for (int64_t warp = 0; warp < player->warps; warp++) {
        int32_t last = player->done[warp] - 1;
        if (last < 0)
            continue;
        int32_t since = cycle - player->schedule->issued[warp * player->schedule->instructions + last];
        free_places[player->flat->unit[last]] -= since < program->units.data[player->flat->unit[last]].cycles;
    }
}

static void play_cycle(struct player *player, int32_t cycle) {
    const gs_flat *flat = player->flat;
    int64_t free_places[GS_MOST_UNITS], issue = flat->program->issue;
    count_free(player, cycle, free_places);
    put_in_order(player);
    for (int64_t i = 0; i < player->warps && issue; i++) {
        int64_t warp = player->order[i];
        int32_t next = player->done[warp];
        if (next == flat->instructions || player->ready[warp] > cycle || !free_places[flat->unit[next]])
            continue;
        free_places[flat->unit[next]]--;
        issue--;
        player->schedule->issued[warp * player->schedule->instructions + next] = cycle;
        player->ready[warp] = cycle + gs_flat_latency(flat, next);
        player->done[warp]++;
        player->ended += player->done[warp] == flat->instructions;
        player->schedule->cycles = gs_max(player->schedule->cycles, player->ready[warp] - 1);
    }
}

gs_code gs_schedule_play(const gs_flat *flat, int64_t warps, gs_order_rule rule, bool fair, gs_schedule *schedule,
                         gs_error *error) {
    struct player player = {.flat = flat, .rule = rule, .fair = fair, .warps = warps, .schedule = schedule};
    *schedule = (gs_schedule){.warps = warps, .instructions = flat->instructions};
    schedule->issued = calloc((size_t)(warps * flat->instructions), sizeof *schedule->issued);
    player.done = calloc((size_t)warps, sizeof *player.done);
    player.ready = calloc((size_t)warps, sizeof *player.ready);
    player.order = calloc((size_t)warps, sizeof *player.order);
    bool made = schedule->issued && player.done && player.ready && player.order;
    for (int64_t i = 0; i < warps && made; i++)
        player.order[i] = i;
    for (int32_t cycle = 1; made && player.ended < warps; cycle++)
        play_cycle(&player, cycle);
    play_clear(&player);
    if (made)
        return GS_OK;
    gs_schedule_clear(schedule);
    return gs_fail_memory(error);
}

void gs_schedule_clear(gs_schedule *schedule) {
    free(schedule->issued);
    *schedule = (gs_schedule){0};
}

/* ---- for people ---- */

/* What a warp does in the cycles from `first` to `last`. */
static void put_row(const gs_schedule *schedule, const gs_flat *flat, int64_t warp, int64_t first, int64_t last,
                    gs_text *text) {
    const int32_t *issued = schedule->issued + warp * schedule->instructions;
    int32_t i = 0;
    for (int64_t cycle = first; cycle <= last; cycle++) {
        while (i < flat->instructions && cycle > issued[i] && cycle >= issued[i] + gs_flat_latency(flat, i))
            i++;
        if (i == flat->instructions)
            break;
        gs_text_add(text, "   %c", cycle < issued[i] ? '.' : cycle == issued[i] ? flat->letter[i] : '-');
    }
    gs_text_add(text, "\n");
}

static void put_part(const gs_schedule *schedule, const gs_flat *flat, int64_t first, int64_t last, gs_text *text) {
    for (int64_t warp = 0; warp < schedule->warps; warp++) {
        gs_text_add(text, "warp %-4lld", (long long)warp + 1);
        put_row(schedule, flat, warp, first, last, text);
    }
    gs_text_add(text, "cycle    ");
    for (int64_t cycle = first; cycle <= last; cycle++)
        gs_text_add(text, "%4lld", (long long)cycle);
    gs_text_add(text, "\n");
}

void gs_schedule_text(const gs_schedule *schedule, const gs_flat *flat, int columns, gs_text *text) {
    enum { MARGIN = 9, CYCLE = 4 };
    int64_t fits = columns ? gs_max(1, (columns - MARGIN) / CYCLE) : schedule->cycles;
    for (int64_t first = 1; first <= schedule->cycles; first += fits)
        put_part(schedule, flat, first, gs_min(first + fits - 1, schedule->cycles), text);
}
