/*
 * traced_cupti.c: libcupti.so.13 for tests: the functions that the recorder uses.
 *
 * Buffers are asked for and given back as CUPTI does: a buffer comes back when it is full, by a thread, or when it is
 * flushed. Every record is complete at once.
 */
#include "traced.h"

#include <pthread.h>

#define DECLARE(name, symbol, arguments) VISIBLE int symbol arguments;
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
} cupti = {.lock = PTHREAD_MUTEX_INITIALIZER};

int cuptiGetVersion(uint32_t *version) {
    *version = 130001;
    return 0;
}

int cuptiGetResultString(int code, const char **words) {
    *words = code == SUBSCRIBED ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "CUPTI_ERROR_UNKNOWN";
    return 0;
}

int cuptiSubscribe(void **subscriber, cupti_callback *callback, void *user) {
    if (is_pretended("subscribed"))
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
    if (kind == CUPTI_DEVICE)
        traced_record(&device, sizeof device);
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

static void give_back(uint8_t *buffer, size_t size, size_t used) {
    if (buffer)
        cupti.gives(NULL, 0, buffer, size, used);
}

int cuptiActivityFlushAll(uint32_t flag) {
    pthread_mutex_lock(&cupti.lock);
    uint8_t *buffer = cupti.buffer;
    size_t size = cupti.size, used = cupti.used;
    cupti.buffer = NULL;
    pthread_mutex_unlock(&cupti.lock);
    give_back(buffer, size, used);
    return flag > 1;
}

int cuptiActivitySetAttribute(int32_t attribute, size_t *size, void *value) {
    return (attribute != CUPTI_ZEROED && attribute != CUPTI_PINNED) || *size != 1 || *(uint8_t *)value != 1;
}

int cuptiGetGraphNodeId(void *node, uint64_t *id) {
    *id = ((const struct traced_node *)node)->id;
    return 0;
}

/* ---- what the driver says ---- */

void traced_call(uint32_t number, const cupti_call *call) {
    if (cupti.callback && cupti.is_enabled[CUPTI_DRIVER][number])
        cupti.callback(cupti.user, CUPTI_DRIVER, number, call);
}

void traced_graph(uint32_t number, const cupti_graph *graph) {
    cupti_graph copy = *graph;
    cupti_resource resource = {.descriptor = &copy};
    if (cupti.callback && cupti.is_enabled[CUPTI_RESOURCE][number])
        cupti.callback(cupti.user, CUPTI_RESOURCE, number, &resource);
}

void traced_record(const void *record, size_t size) {
    uint8_t *full = NULL;
    size_t full_size = 0, full_used = 0, rounded = (size + 7) / 8 * 8, most;
    if (!cupti.wants || !cupti.has_kind[*(const uint32_t *)record])
        return;
    pthread_mutex_lock(&cupti.lock);
    if (cupti.buffer && cupti.used + rounded + 8 > cupti.size) {
        full = cupti.buffer;
        full_size = cupti.size;
        full_used = cupti.used;
        cupti.buffer = NULL;
    }
    if (!cupti.buffer) {
        cupti.wants(&cupti.buffer, &cupti.size, &most);
        cupti.used = 0;
        for (size_t i = 0; i < cupti.size; i++)
            if (cupti.buffer[i])
                abort(); /* the recorder said that they are zeroed */
    }
    if (!cupti.buffer || (++cupti.records % 10 == 0 && is_pretended("drops"))) {
        cupti.dropped++;
    } else {
        memcpy(cupti.buffer + cupti.used, &rounded, sizeof rounded);
        memcpy(cupti.buffer + cupti.used + 8, record, size);
        cupti.used += rounded + 8;
    }
    pthread_mutex_unlock(&cupti.lock);
    give_back(full, full_size, full_used);
}
