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

enum { PERSISTENT = GS_SASS_CODE_KNOWN | GS_SASS_CODE_LOOPS | GS_SASS_CODE_WAITS | GS_SASS_CODE_TELLS };

/* All kernels have this code. */
static void judge_page_with(gs_watch_page *page, unsigned kernel_code, gs_hang *hang) {
    gs_error error = {.code = GS_OK};
    assert_int_equal(gs_hang_find(hang, page, NOW, 1, &error), GS_OK);
    for (size_t i = 0; i < hang->kernels.count; i++)
        hang->kernels.data[i].code = kernel_code;
    gs_hang_find_heads(hang);
    assert_int_equal(gs_hang_judge(hang, &error), GS_OK);
}

static void judge_page(gs_watch_page *page, gs_hang *hang) {
    judge_page_with(page, PERSISTENT, hang);
}

/* A kernel at the head of a stream; its function is at the same place. */
static void put_kernel(gs_watch_page *page, uint32_t place, const char *name, uint32_t blocks, uint32_t threads) {
    gs_watch_stream *stream = &page->streams[place];
    gs_watch_function *function = &page->functions[place];
    snprintf(page->gpu, sizeof page->gpu, "NVIDIA H200");
    page->sms = 132;
    stream->number = place;
    atomic_store(&stream->handle, place + 1);
    atomic_store(&stream->issued, 1);
    stream->operations[1] = (gs_watch_operation){.number = 1,
                                                 .kind = GS_WATCH_KERNEL,
                                                 .function = place + 1,
                                                 .shape = {blocks, 1, 1, threads, 1, 1},
                                                 .at_ns = place + 1};
    snprintf(function->name, sizeof function->name, "%s", name);
    function->registers = 96;
    function->cluster = 1;
    function->carveout_percent = -1;
    atomic_store(&function->is_known, 1);
    atomic_store(&function->launches, 1);
}

/* A stream waits for an event that was opened by its handle. */
TEST(names_an_event_of_another_process) {
    gs_watch_page *page = new_page();
    gs_watch_stream *stream = &page->streams[0];
    gs_hang hang;
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
TEST(names_a_call_of_nccl) {
    gs_watch_page *page = new_page();
    gs_watch_thread *thread = &page->threads[3];
    gs_hang hang;
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
TEST(knows_an_event_of_a_capture) {
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

/* Local memory that a launch before has set up is not what a collective waits for beside a persistent kernel. */
TEST(knows_local_memory_that_is_set_up) {
    for (uint64_t launches = 1; launches < 3; launches++) {
        gs_watch_page *page = new_page();
        gs_hang hang;
        put_kernel(page, 0, "serve", 8, 128);
        put_kernel(page, 1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2, 288);
        page->streams[1].operations[1].collective = (uint32_t)launches;
        page->functions[1].local_bytes = 1736;
        atomic_store(&page->functions[1].launches, launches);
        judge_page(page, &hang);
        assert_int_equal(hang.cause, launches == 1 ? GS_HANG_TWO_KERNELS : GS_HANG_RANKS);
        gs_hang_free(&hang);
    }
}

/* PyTorch asks for the function of a kernel before it launches it: that loads it, behind a persistent kernel. */
TEST(names_the_kernel_that_is_loaded) {
    gs_watch_page *page = new_page();
    gs_watch_thread *thread = &page->threads[0];
    gs_hang hang;
    put_kernel(page, 0, "serve", 8, 128);
    snprintf(page->calls[5].name, GS_WATCH_CALL_NAME, "cuKernelGetFunction");
    page->calls[5].class = GS_WATCH_LOAD;
    snprintf(page->functions[7].name, GS_WATCH_NAME, "add");
    atomic_store(&thread->thread, 1234);
    atomic_store(&thread->call, 6);
    atomic_store(&thread->since_ns, POLLED_SINCE);
    atomic_store(&thread->function, 8);
    judge_page(page, &hang);
    assert_int_equal(hang.cause, GS_HANG_LOADING);
    assert_string_equal(hang.said.data,
                        "cuKernelGetFunction loads add, which waits until the GPU is idle; serve (8 blocks "
                        "of 128 threads, stream 0) does not end, and waits for what comes later.");
    assert_string_equal(hang.fixes.data[0], "CUDA_MODULE_LOADING=EAGER");
    gs_hang_free(&hang);
}

/* A graph with a host function: if its kernels cannot last, it is the host function that does. */
TEST(names_a_host_function_of_a_graph) {
    static const struct {
        unsigned code;
        gs_hang_cause cause;
    } rows[] = {{GS_SASS_CODE_KNOWN, GS_HANG_HOST_FUNCTION},
                {GS_SASS_CODE_KNOWN | GS_SASS_CODE_LOOPS, GS_HANG_UNKNOWN},
                {0, GS_HANG_UNKNOWN},
                {PERSISTENT, GS_HANG_ENDLESS}};
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_watch_page *page = new_page();
        gs_hang hang;
        put_kernel(page, 0, "step", 1, 1);
        page->streams[0].operations[1] = (gs_watch_operation){.number = 1, .kind = GS_WATCH_GRAPH, .object = EVENT};
        atomic_store(&page->graphs[3].handle, EVENT);
        page->graphs[3].has_host = page->graphs[3].kernel_count = page->graphs[3].kernels[0].function = 1;
        for (size_t k = 0; k < 6; k++)
            page->graphs[3].kernels[0].shape[k] = 1;
        judge_page_with(page, rows[i].code, &hang);
        assert_int_equal(hang.cause, rows[i].cause);
        assert_false(hang.is_alarm);
        gs_hang_free(&hang);
    }
}

TEST_MAIN(NULL, NULL)
