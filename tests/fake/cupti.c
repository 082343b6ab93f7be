/*
 * cupti.c: libcupti.so.13 for tests: the functions that the recorder uses.
 *
 * Buffers are asked for and given back as CUPTI does: a buffer comes back when it is full, by a thread, or when it is
 * flushed. Every record is complete at once.
 */
#include "fake.h"

#include <pthread.h>

#define DECLARE(name, symbol, arguments) FAKE_VISIBLE symbol arguments;
CUPTI_SYMBOLS(DECLARE)

enum { SUBSCRIBED = 39, END = 12, MOST_IDS = 1024 };

static struct cupti {
    pthread_mutex_t lock;
    cupti_callback *callback;
    void *user;
    bool is_enabled[4][MOST_IDS];
    bool has_kind[64];
    cupti_wants_buffer *wants;
    cupti_gives_buffer *gives;
    uint8_t *buffer;
    size_t size, used, records, dropped;
    int full_count, given_count; /* buffers that were full or flushed, and those given back */
    pthread_cond_t given;
} cupti = {.lock = PTHREAD_MUTEX_INITIALIZER, .given = PTHREAD_COND_INITIALIZER};

int cuptiGetVersion(uint32_t *version) {
    *version = 130001;
    return 0;
}

int cuptiGetResultString(int code, const char **words) {
    *words = code == SUBSCRIBED ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "CUPTI_ERROR_UNKNOWN";
    return 0;
}

int cuptiSubscribe(void **subscriber, cupti_callback *callback, void *user) {
    if (fake_has("subscribed"))
        return SUBSCRIBED;
    cupti.callback = callback;
    cupti.user = user;
    *subscriber = &cupti;
    return 0;
}

int cuptiEnableCallback(uint32_t enable, void *subscriber, int32_t domain, uint32_t id) {
    if (subscriber != &cupti || domain < 1 || domain > 3 || id >= MOST_IDS)
        return 1;
    cupti.is_enabled[domain][id] = enable;
    return 0;
}

int cuptiActivityRegisterCallbacks(cupti_wants_buffer *wants, cupti_gives_buffer *gives) {
    cupti.wants = wants;
    cupti.gives = gives;
    return 0;
}

int cuptiActivityEnable(uint32_t kind) {
    static const char name[] = "NVIDIA H200 NVL";
    cupti_device device = {.kind = CUPTI_DEVICE, .sms = 132, .name = name};
    if (kind >= 64)
        return 1;
    cupti.has_kind[kind] = true;
    if (kind == CUPTI_DEVICE && !fake_has("nameless"))
        fake_cupti_record(&device, sizeof device);
    return 0;
}

/* A record in a buffer: its size, then the record, 8 bytes aligned. */
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record) {
    size_t at = *record ? (size_t)((uint8_t *)*record - buffer) - 8 : 0, size;
    if (*record) {
        memcpy(&size, buffer + at, sizeof size);
        at += 8 + size;
    }
    if (at >= valid)
        return END;
    *record = buffer + at + 8;
    return 0;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped) {
    pthread_mutex_lock(&cupti.lock);
    *dropped = cupti.dropped;
    cupti.dropped = 0;
    pthread_mutex_unlock(&cupti.lock);
    return context || stream;
}

/* A full buffer, which a thread of CUPTI gives back. */
struct full {
    uint8_t *buffer;
    size_t size, used;
    int number;
};

/* Buffers come back in order. */
static void *give_full(void *argument) {
    struct full *full = argument;
    pthread_mutex_lock(&cupti.lock);
    while (cupti.given_count != full->number)
        pthread_cond_wait(&cupti.given, &cupti.lock);
    pthread_mutex_unlock(&cupti.lock);
    cupti.gives(NULL, 0, full->buffer, full->size, full->used);
    free(full);
    pthread_mutex_lock(&cupti.lock);
    cupti.given_count++;
    pthread_cond_broadcast(&cupti.given);
    pthread_mutex_unlock(&cupti.lock);
    return NULL;
}

/* With the lock held: takes the buffer away. */
static struct full *take_buffer(void) {
    struct full *full = cupti.buffer ? malloc(sizeof *full) : NULL;
    if (full) {
        *full = (struct full){cupti.buffer, cupti.size, cupti.used, cupti.full_count++};
    }
    cupti.buffer = NULL;
    return full;
}

int cuptiActivityFlushAll(uint32_t flag) {
    pthread_mutex_lock(&cupti.lock);
    struct full *full = take_buffer();
    pthread_mutex_unlock(&cupti.lock);
    if (full)
        give_full(full);
    pthread_mutex_lock(&cupti.lock);
    while (cupti.given_count != cupti.full_count)
        pthread_cond_wait(&cupti.given, &cupti.lock);
    pthread_mutex_unlock(&cupti.lock);
    return flag > 1;
}

int cuptiActivitySetAttribute(int32_t attribute, size_t *size, void *value) {
    return (attribute != CUPTI_ZEROED && attribute != CUPTI_PINNED) || *size != 1 || *(uint8_t *)value != 1;
}

int cuptiGetGraphNodeId(void *node, uint64_t *id) {
    *id = ((const fake_node *)node)->id;
    return 0;
}

/* ---- what the driver says ---- */

void fake_cupti_call(uint32_t number, const cupti_call *call) {
    if (cupti.callback && cupti.is_enabled[CUPTI_DRIVER][number])
        cupti.callback(cupti.user, CUPTI_DRIVER, number, call);
}

void fake_cupti_graph(uint32_t number, const cupti_graph *graph) {
    cupti_graph copy = *graph;
    cupti_resource resource = {.descriptor = &copy};
    if (cupti.callback && cupti.is_enabled[CUPTI_RESOURCE][number])
        cupti.callback(cupti.user, CUPTI_RESOURCE, number, &resource);
}

/* With the lock held. */
static void keep_record(const void *record, size_t size, size_t rounded) {
    size_t most;
    if (!cupti.buffer) {
        cupti.wants(&cupti.buffer, &cupti.size, &most);
        cupti.used = 0;
        for (size_t i = 0; i < cupti.size; i++)
            if (cupti.buffer[i])
                abort(); /* the recorder said that they are zeroed */
    }
    if (!cupti.buffer || (++cupti.records % 10 == 0 && fake_has("drops"))) {
        cupti.dropped++;
        return;
    }
    memcpy(cupti.buffer + cupti.used, &rounded, sizeof rounded);
    memcpy(cupti.buffer + cupti.used + 8, record, size);
    cupti.used += rounded + 8;
}

void fake_cupti_record(const void *record, size_t size) {
    struct full *full = NULL;
    size_t rounded = (size + 7) / 8 * 8;
    pthread_t thread;
    if (!cupti.wants || !cupti.has_kind[*(const uint32_t *)record])
        return;
    pthread_mutex_lock(&cupti.lock);
    if (cupti.buffer && cupti.used + rounded + 8 > cupti.size)
        full = take_buffer();
    keep_record(record, size, rounded);
    pthread_mutex_unlock(&cupti.lock);
    if (full && pthread_create(&thread, NULL, give_full, full) == 0)
        pthread_detach(thread);
    else if (full)
        give_full(full);
}
