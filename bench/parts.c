/*
 * parts.c: streams that use a part of the SMs, for bench/pairs: how a library that cannot be reshaped is kept on some
 * SMs.
 *
 * A part is a green context (CUDA 12.4), of which only a stream is made. Kernels and memory of the ordinary context can
 * be used on it. The driver rounds the number of SMs. Parts live until the program ends.
 */
#include "pairs.h"

#include <dlfcn.h>
#include <string.h>

/* The driver's CUdevResource. */
struct part_resource {
    int type;
    unsigned char padding[92];
    union {
        unsigned sms;
        unsigned char bytes[48];
    } value;
};

enum { RESOURCE_SMS = 1, DEFAULT_STREAM = 1 };

struct part_api {
    int (*resource_of)(int, struct part_resource *, int);
    int (*split)(struct part_resource *, unsigned *, const struct part_resource *, struct part_resource *, unsigned,
                 unsigned);
    int (*describe)(void **, struct part_resource *, unsigned);
    int (*create)(void **, void *, int, unsigned);
    int (*stream_new)(cu_stream *, void *, unsigned, int);
};

static bool find(void *driver, const char *name, void *pointer) {
    void *symbol = dlsym(driver, name);
    memcpy(pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

static int make_stream(const struct part_api *parts, int device, struct part_resource *resource, cu_stream *stream) {
    void *description, *context;
    int failed = parts->describe(&description, resource, 1);
    failed = failed ? failed : parts->create(&context, description, device, DEFAULT_STREAM);
    return failed ? failed : parts->stream_new(stream, context, CU_STREAM_NON_BLOCKING, 0);
}

bool parts_make(const pair_card *card, int sms, cu_stream *first, cu_stream *others) {
    struct part_api parts;
    struct part_resource all = {0}, part = {0}, rest = {0};
    unsigned groups = 1;
    void *driver = card->api.driver;
    bool is_there = find(driver, "cuDeviceGetDevResource", &parts.resource_of) &&
                    find(driver, "cuDevSmResourceSplitByCount", &parts.split) &&
                    find(driver, "cuDevResourceGenerateDesc", &parts.describe) &&
                    find(driver, "cuGreenCtxCreate", &parts.create) &&
                    find(driver, "cuGreenCtxStreamCreate", &parts.stream_new);
    if (!is_there)
        return false;
    int failed = parts.resource_of(card->device, &all, RESOURCE_SMS);
    failed = failed ? failed : parts.split(&part, &groups, &all, &rest, 0, (unsigned)sms);
    failed = failed ? failed : make_stream(&parts, card->device, &part, first);
    failed = failed ? failed : make_stream(&parts, card->device, &rest, others);
    return card_check(card, failed, "making parts of the GPU");
}
