/*
 * test_hang_facts.c: what is said of facts that the fake driver does not have: pages as programs on an H200 left them.
 */
#include "test.h"

#include "lab/watch/hang.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOW = 5000, EVENT = 0x77, POLLED_SINCE = 1000 };

static gs_watch_page *new_page(void) {
    gs_watch_page *page = calloc(1, sizeof *page);
    assert_non_null(page);
    page->process = getpid();
    page->rank = -1;
    return page;
}

static void judge_page(gs_watch_page *page, gs_hang *hang) {
    gs_error error = {.code = GS_OK};
    assert_int_equal(gs_hang_find(hang, page, NOW, 1, &error), GS_OK);
    assert_int_equal(gs_hang_judge(hang, &error), GS_OK);
}

/* A stream waits for an event that was opened by its handle. */
static void names_an_event_of_another_process(void **state) {
    gs_watch_page *page = new_page();
    gs_watch_stream *stream = &page->streams[0];
    gs_hang hang;
    (void)state;
    atomic_store(&stream->handle, 1);
    atomic_store(&stream->issued, 1);
    stream->operations[1] = (gs_watch_operation){.number = 1, .kind = GS_WATCH_WAIT_EVENT, .object = EVENT};
    judge_page(page, &hang);
    assert_int_equal(hang.cause, GS_HANG_UNKNOWN);
    assert_string_equal(hang.said.data,
                        "Stream 0 is at a wait for an event that no stream of this process has recorded: "
                        "it is of another process, whose report says more.");
    gs_hang_free(&hang);
}

/* A rank waits in NCCL, for a socket. */
static void names_a_call_of_nccl(void **state) {
    gs_watch_page *page = new_page();
    gs_watch_thread *thread = &page->threads[3];
    gs_hang hang;
    (void)state;
    atomic_store(&thread->thread, 1234);
    atomic_store(&thread->frame_count, 4);
    strcpy(thread->stack[2], "accept (libc.so.6)");
    strcpy(thread->stack[3], "pncclCommInitRank (libnccl.so.2)");
    judge_page(page, &hang);
    assert_int_equal(hang.cause, GS_HANG_RANKS);
    assert_false(hang.is_alarm);
    assert_string_equal(hang.said.data,
                        "Thread 1234 is in ncclCommInitRank, and in no call of CUDA: it waits for another rank.");
    gs_hang_free(&hang);
}

/* The driver answers 1 to a query of an event that was recorded in a capture, until the capture ends. */
static void knows_an_event_of_a_capture(void **state) {
    (void)state;
    for (uint32_t capture = 0; capture < 2; capture++) {
        gs_watch_page *page = new_page();
        gs_watch_thread *thread = &page->threads[0];
        gs_hang hang;
        atomic_store(&page->events[9].handle, EVENT);
        page->events[9].capture = capture;
        atomic_store(&thread->thread, 1234);
        atomic_store(&thread->polled, EVENT);
        atomic_store(&thread->polled_ns, POLLED_SINCE);
        atomic_store(&thread->answer, 1);
        judge_page(page, &hang);
        assert_int_equal(hang.cause, GS_HANG_ERROR);
        assert_int_equal(hang.is_alarm, !capture);
        gs_hang_free(&hang);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_an_event_of_another_process),
        cmocka_unit_test(names_a_call_of_nccl),
        cmocka_unit_test(knows_an_event_of_a_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
