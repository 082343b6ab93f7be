/*
 * test_ptx_variations.c: random kernels (random_ptx.c), and kernels that differ from them in one statement, are decided
 * as before (variations.h). Kernels that wait for other blocks, and those whose threads take different ways, are varied
 * in test_ptx_waits.c, test_ptx_threads.c and test_ptx_text.c.
 */
#include "variations.h"

#include "random_ptx.h"

#include <string.h>

TEST(nearly_the_same_kernels_are_decided_as_before) {
    enum { VARIED = 16 };
    static const char *const inserted[] = {"bar.sync 0; ",
                                           "@%p1 ret; ",
                                           "mov.u32 %v, %ctaid.y; ",
                                           "vote.sync.ballot.b32 %t1, %p1, -1; ",
                                           "st.volatile.global.u32 [%flags], %v; ",
                                           "ld.volatile.global.u32 %t1, [%flags]; ",
                                           NULL};
    static const variations_scope scope = {.symbol = "k", .guard = "@%p1 ", .value = "%v", .inserted = inserted};
    variations_open("random");
    for (uint64_t i = 0; i < VARIED; i++) {
        gs_random random = gs_random_at(1, i);
        random_ptx_kernel kernel = {.name = "k", .grid = {24, 1, 1}, .block = {64, 1, 1}};
        gs_text text = {0};
        char name[40];
        gs_text_add(&text, "%s", random_ptx_head);
        size_t from = text.count;
        random_ptx_put(&text, &kernel, &random);
        snprintf(name, sizeof name, "k%llu", (unsigned long long)i);
        variations_expect(name, text.data, strchr(text.data + from, '{'), text.data + text.count, &scope);
        gs_text_free(&text);
    }
    variations_close();
}

TEST_MAIN(NULL, NULL)
