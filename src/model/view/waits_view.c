/*
 * waits_view.c: what launches waited for, in sentences: "a waited 3.1 ms in 412 launches for b to release shared
 * memory".
 */
#include "view.h"

#include <string.h>

enum { MOST_LETTERS = 64 }; /* of the name of a kernel in a sentence */

void gs_put_duration(gs_text *text, int64_t ns) {
    double us = (double)ns / 1000;
    if (us < 1000)
        gs_text_add(text, "%.1f us", us);
    else if (us < 1e6)
        gs_text_add(text, "%.2f ms", us / 1000);
    else
        gs_text_add(text, "%.2f s", us / 1e6);
}

/* "at::native::reduce_kernel<...>" of "_ZN2at6native13reduce_kernelILi512E...". False: it is not that simple. */
static bool put_identifiers(gs_text *text, const char *name) {
    gs_symbol symbol = {.text = name};
    size_t count = 0;
    while (gs_symbol_next(&symbol))
        gs_text_add(text, "%s%.*s", count++ ? "::" : "", (int)symbol.length, symbol.name);
    gs_text_add(text, *symbol.at == 'I' ? "<...>" : "");
    return count > 0;
}

void gs_put_name(gs_text *text, const char *name) {
    if (strncmp(name, "void ", 5) == 0)
        name += 5;
    size_t length = strlen(name);
    gs_text readable = {0};
    if (put_identifiers(&readable, name) && !readable.failed)
        gs_text_add(text, "%s", readable.data);
    else if (length <= MOST_LETTERS)
        gs_text_add(text, "%s", name);
    else
        gs_text_add(text, "%.*s...", MOST_LETTERS - 3, name);
    gs_text_free(&readable);
}

/* The action of another launch that ends a wait. */
static const char *to_do(gs_lack lack) {
    static const char *const words[] = {
        [GS_LACK_NONE] = "to leave SMs",
        [GS_LACK_CONFIG] = "to leave SMs, which have another shared-memory configuration",
        [GS_LACK_BLOCK_SLOTS] = "to release block slots",
        [GS_LACK_WARP_SLOTS] = "to release warp slots",
        [GS_LACK_REGISTERS] = "to release registers",
        [GS_LACK_SHARED] = "to release shared memory",
        [GS_LACK_SHARED_HOLES] = "to release shared memory in one piece",
        [GS_LACK_LOCAL] = "to end: local memory grows only while the GPU is idle",
        [GS_LACK_CLUSTER] = "to leave SMs of one GPC for a cluster",
    };
    return words[lack];
}

void gs_put_wait(gs_text *text, gs_reason reason, gs_lack lack, const char *behind) {
    gs_text name = {0};
    gs_put_name(&name, behind ? behind : "others");
    const char *other = name.data ? name.data : "";
    switch (reason) {
    case GS_REASON_HOST:
        gs_text_add(text, "for the host to launch it");
        break;
    case GS_REASON_STREAM:
        gs_text_add(text, "for %s before it in its stream", other);
        break;
    case GS_REASON_EVENT:
        gs_text_add(text, "for %s in another stream (an event or an edge of a graph)", other);
        break;
    case GS_REASON_OVERHEAD:
        gs_text_add(text, "for the GPU to go on to it (launch overhead)");
        break;
    case GS_REASON_ENGINE:
        gs_text_add(text, "for the copy engine, which was busy with a %s", other);
        break;
    case GS_REASON_QUEUE:
        gs_text_add(text, "behind %s, which was served first", other);
        break;
    case GS_REASON_HEADROOM:
        gs_text_add(text, "for %s %s", other, to_do(lack));
        break;
    default:
        gs_text_add(text, "with some of its blocks for %s %s", other, to_do(lack));
    }
    text->failed = text->failed || name.failed;
    gs_text_free(&name);
}

/* A kernel is launched; a copy or a memset is not. */
static void put_count(gs_text *text, const gs_wait_sum *sum) {
    bool is_memset = strcmp(sum->kernel, "memset") == 0;
    const char *one = !sum->is_copy ? "launch" : is_memset ? "memset" : "copy";
    const char *many = !sum->is_copy ? "launches" : is_memset ? "memsets" : "copies";
    gs_text_add(text, "%lld %s", (long long)sum->launches, sum->launches == 1 ? one : many);
}

void gs_put_wait_sum(gs_text *text, const gs_wait_sum *sum) {
    if (sum->reason == GS_REASON_HOST) {
        gs_text_add(text, "the stream was idle for ");
        gs_put_duration(text, sum->ns);
        gs_text_add(text, " before ");
        put_count(text, sum);
        if (!sum->is_copy) {
            gs_text_add(text, " of ");
            gs_put_name(text, sum->kernel);
        }
        gs_text_add(text, ": the host issued %s late", sum->launches == 1 ? "it" : "them");
        return;
    }
    gs_put_name(text, sum->kernel);
    gs_text_add(text, " waited ");
    gs_put_duration(text, sum->ns);
    gs_text_add(text, " in ");
    put_count(text, sum);
    gs_text_add(text, " ");
    gs_put_wait(text, sum->reason, sum->lack, sum->behind);
}
