/*
 * test_heads.c: where streams stand, and what damaged pages do.
 *
 * The oracle plays random programs literally: streams with kernels, records of events and waits for them. Some kernels
 * never end; their code waits. What each stream stands at then is what `watch` must find in the page of that program,
 * and it must find no circle, because no stream can wait for an event that is recorded after the wait.
 */
#include "test.h"

#include "lab/watch/hang.h"

#include <stdlib.h>
#include <unistd.h>

enum { STREAMS = 5, MOST_OPERATIONS = 40, PROGRAMS = 2000, DAMAGED = 300, FUNCTIONS = 2 };

/* Of kernels: the first function ends, the second waits. */
static const unsigned codes[FUNCTIONS] = {GS_SASS_CODE_KNOWN,
                                          GS_SASS_CODE_KNOWN | GS_SASS_CODE_LOOPS | GS_SASS_CODE_WAITS};

static gs_watch_page *new_page(void) {
    gs_watch_page *page = calloc(1, sizeof *page);
    assert_non_null(page);
    page->process = getpid();
    page->rank = -1;
    page->connections = 8;
    snprintf(page->functions[0].name, GS_WATCH_NAME, "ends");
    snprintf(page->functions[1].name, GS_WATCH_NAME, "waits");
    return page;
}

/* Issues random operations in a random order. */
static void issue_program(gs_watch_page *page, gs_random *random) {
    int64_t count = gs_random_from(random, 1, STREAMS * MOST_OPERATIONS / 2);
    for (int64_t i = 0; i < count; i++) {
        uint32_t place = (uint32_t)gs_random_from(random, 0, STREAMS - 1);
        gs_watch_stream *stream = &page->streams[place];
        uint64_t number = atomic_load(&stream->issued) + 1;
        gs_watch_operation made = {.number = number, .at_ns = i + 1};
        uint32_t other = (uint32_t)gs_random_from(random, 0, STREAMS - 1);
        uint64_t others = atomic_load(&page->streams[other].issued);
        if (number > MOST_OPERATIONS)
            continue;
        if (gs_random_chance(random, 40) && others && other != place) {
            made.kind = GS_WATCH_WAIT_EVENT;
            made.other = other + 1;
            made.until = (uint64_t)gs_random_from(random, 1, (int64_t)others);
        } else {
            made.kind = gs_random_chance(random, 30) ? GS_WATCH_RECORD : GS_WATCH_KERNEL;
            made.function = 1 + gs_random_chance(random, 10);
        }
        stream->number = place;
        atomic_store(&stream->handle, place + 1);
        atomic_store(&stream->issued, number);
        stream->operations[number % GS_WATCH_OPERATIONS] = made;
    }
}

/* How many operations of each stream end. */
static void play_program(const gs_watch_page *page, uint64_t *ended) {
    for (bool moves = true; moves;) {
        moves = false;
        for (uint32_t i = 0; i < STREAMS; i++) {
            const gs_watch_operation *next = gs_hang_operation(&page->streams[i], ended[i] + 1);
            bool ends = next && !(next->kind == GS_WATCH_KERNEL && next->function == 2) &&
                        !(next->kind == GS_WATCH_WAIT_EVENT && ended[next->other - 1] < next->until);
            ended[i] += ends;
            moves = moves || ends;
        }
    }
}

static void put_codes(gs_hang *hang) {
    for (size_t i = 0; i < hang->kernels.count; i++)
        hang->kernels.data[i].code = codes[(hang->kernels.data[i].operation->function - 1) % FUNCTIONS];
    gs_hang_find_heads(hang);
}

TEST(finds_what_streams_stand_at) {
    for (uint64_t index = 0; index < PROGRAMS; index++) {
        gs_random random = gs_random_at(39, index);
        gs_error error = {.code = GS_OK};
        uint64_t ended[STREAMS] = {0};
        gs_watch_page *page = new_page();
        gs_hang hang;
        issue_program(page, &random);
        play_program(page, ended);
        for (uint32_t i = 0; i < STREAMS; i++) /* what the program has waited for */
            atomic_store(&page->streams[i].done, (uint64_t)gs_random_from(&random, 0, (int64_t)ended[i]));
        assert_int_equal(gs_hang_find(&hang, page, 1000, 1, &error), GS_OK);
        put_codes(&hang);
        for (uint32_t i = 0; i < STREAMS; i++) {
            const gs_hang_stream *stream = gs_hang_stream_of(&hang, i);
            if (ended[i] == atomic_load(&page->streams[i].issued))
                continue; /* it has ended, though that is not known */
            if (!stream || !stream->head || stream->head->number != ended[i] + 1)
                fail_msg("program %d: stream %u is not at %d", (int)index, i, (int)ended[i] + 1);
        }
        assert_int_equal(gs_hang_judge(&hang, &error), GS_OK);
        assert_true(hang.cause != GS_HANG_NEVER_ISSUED);
        gs_hang_free(&hang);
    }
}

/* Any bytes: the page is memory of the program. Reports end, whatever they say. */
TEST(stands_damaged_pages) {
    for (uint64_t index = 0; index < DAMAGED; index++) {
        gs_random random = gs_random_at(40, index);
        gs_error error = {.code = GS_OK};
        gs_text text = {0};
        gs_watch_page *page = new_page();
        gs_hang hang;
        issue_program(page, &random);
        for (int64_t i = gs_random_from(&random, 1, 400); i > 0; i--) {
            size_t at = (size_t)gs_random_from(&random, 0, (int64_t)sizeof(gs_watch_stream) * STREAMS - 1);
            ((unsigned char *)page->streams)[at] = (unsigned char)gs_random_next(&random);
        }
        assert_int_equal(gs_hang_find(&hang, page, 1000, 1, &error), GS_OK);
        put_codes(&hang);
        assert_int_equal(gs_hang_judge(&hang, &error), GS_OK);
        gs_hang_put_text(&hang, &text);
        gs_hang_put_json(&hang, &text);
        gs_hang_put_page(&hang, &text);
        assert_true(text.count > 0);
        gs_text_free(&text);
        gs_hang_free(&hang);
    }
}

TEST_MAIN(NULL, NULL)
