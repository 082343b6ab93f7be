/*
 * nvtx.c: the ranges that a program names with NVTX, as lines of the recording.
 *
 * NVTX is a header. Each library that includes it has its own copy, which loads the library that NVTX_INJECTION64_PATH
 * names at the first call, and gives it tables of pointers to functions: InitializeInjectionNvtx2 replaces those of
 * ranges, and the others do nothing. A range is pushed and popped by one thread, or started and ended with an id. A
 * domain has pushed ranges of its own.
 *
 * A range is written when it ends. So one that is open at the end of the program is not recorded, and neither is one
 * that ends before CUDA starts.
 */
#include "recorder.h"

#include <stdlib.h>
#include <wchar.h>

enum { MOST_OPEN = 64, NAME_BYTES = 120 };

struct range {
    int64_t from_ns;
    const void *domain;
    char name[NAME_BYTES];
};

/* The recorder, as soon as there is one. */
static _Atomic(gs_recorder *) recorder;

/* The pushed ranges of a thread. Those above MOST_OPEN are counted, and not recorded. */
struct pushed {
    int depth;
    struct range ranges[MOST_OPEN];
};

static _Thread_local struct pushed *pushed; /* NULL: it has never pushed one */
static pthread_key_t pushed_key;            /* frees them when the thread ends */
static pthread_once_t pushed_once = PTHREAD_ONCE_INIT;

/* Ranges with an id, and strings that the program registers. */
static struct shared {
    pthread_mutex_t lock;
    uint64_t last_id;
    gs_number_map started; /* by id: a struct range */
    char **strings;
    size_t string_count, string_capacity;
} shared = {.lock = GS_SHORT_LOCK};

/* ---- names ---- */

/* What is not ASCII becomes a question mark. */
static void narrow(const wchar_t *wide, char *name) {
    size_t count = 0;
    for (; wide && wide[count] && count + 1 < NAME_BYTES; count++)
        name[count] = wide[count] > 0 && wide[count] < 128 ? (char)wide[count] : '?';
    name[count] = '\0';
}

static void copy_name(const char *text, char *name) {
    snprintf(name, NAME_BYTES, "%s", text ? text : "");
}

/* nvtxEventAttributes_t, which later versions may extend. */
struct attributes {
    uint16_t version, bytes;
    uint32_t before[7];
    int32_t message_type;
    const void *message;
};

static void read_name(const struct attributes *attributes, char *name) {
    enum { ASCII = 1, UNICODE = 2, REGISTERED = 3 };
    bool has_message = attributes && attributes->bytes >= sizeof *attributes;
    int type = has_message ? attributes->message_type : 0;
    name[0] = '\0';
    if (type == ASCII || type == REGISTERED)
        copy_name(attributes->message, name);
    else if (type == UNICODE)
        narrow(attributes->message, name);
}

/* ---- ranges ---- */

static void write_range(const struct range *range) {
    gs_recorder *found = atomic_load(&recorder);
    if (found && range->name[0])
        gs_recorder_range(found, range->name, range->from_ns, gs_recorder_now_ns());
}

static void make_key(void) {
    pthread_key_create(&pushed_key, free);
}

static struct pushed *pushed_here(void) {
    pthread_once(&pushed_once, make_key);
    if (!pushed) {
        pushed = calloc(1, sizeof *pushed);
        pthread_setspecific(pushed_key, pushed);
    }
    return pushed;
}

/* Begins a range. The caller sets its name. NULL: too many are open. */
static struct range *push_range(const void *domain) {
    struct pushed *here = pushed_here();
    struct range *made = here && here->depth < MOST_OPEN ? &here->ranges[here->depth] : NULL;
    if (here)
        here->depth++;
    if (made) {
        made->domain = domain;
        made->from_ns = gs_recorder_now_ns();
    }
    return made;
}

/* The depth of a range that was pushed, as NVTX counts it. */
static int depth_of_last(void) {
    return pushed ? pushed->depth - 1 : -1;
}

static int pop_range(const void *domain) {
    int at = depth_of_last();
    if (at >= MOST_OPEN) {
        pushed->depth--;
        return at;
    }
    while (at >= 0 && pushed->ranges[at].domain != domain)
        at--;
    if (at < 0)
        return -1;
    struct range *range = &pushed->ranges[at];
    write_range(range);
    pushed->depth--;
    memmove(range, range + 1, (size_t)(pushed->depth - at) * sizeof *range);
    return pushed->depth;
}

/* The id of a range that may end in another thread; 0: out of memory. The range is the caller's. */
static uint64_t start_range(const struct range *range) {
    struct range *kept = malloc(sizeof *kept);
    if (!kept)
        return 0;
    *kept = *range;
    kept->from_ns = gs_recorder_now_ns();
    pthread_mutex_lock(&shared.lock);
    uint64_t id = ++shared.last_id, *value = gs_number_map_add(&shared.started, id);
    if (value)
        *value = (uint64_t)(uintptr_t)kept;
    pthread_mutex_unlock(&shared.lock);
    if (!value)
        free(kept);
    return value ? id : 0;
}

static void end_range(uint64_t id) {
    pthread_mutex_lock(&shared.lock);
    uint64_t *value = id ? gs_number_map_find(&shared.started, id) : NULL;
    struct range *range = value ? (struct range *)(uintptr_t)*value : NULL;
    if (value)
        gs_number_map_remove(&shared.started, id);
    pthread_mutex_unlock(&shared.lock);
    if (range)
        write_range(range);
    free(range);
}

/* ---- the functions of NVTX ---- */

static int domain_push(void *domain, const struct attributes *attributes) {
    struct range *range = push_range(domain);
    if (range)
        read_name(attributes, range->name);
    return depth_of_last();
}

static int push_attributes(const struct attributes *attributes) {
    return domain_push(NULL, attributes);
}

static int push_text(const char *text) {
    struct range *range = push_range(NULL);
    if (range)
        copy_name(text, range->name);
    return depth_of_last();
}

static int push_wide(const wchar_t *text) {
    struct range *range = push_range(NULL);
    if (range)
        narrow(text, range->name);
    return depth_of_last();
}

static int domain_pop(void *domain) {
    return pop_range(domain);
}

static int pop(void) {
    return pop_range(NULL);
}

static uint64_t domain_start(void *domain, const struct attributes *attributes) {
    struct range range = {.domain = domain};
    read_name(attributes, range.name);
    return start_range(&range);
}

static uint64_t start_attributes(const struct attributes *attributes) {
    return domain_start(NULL, attributes);
}

static uint64_t start_text(const char *text) {
    struct range range = {0};
    copy_name(text, range.name);
    return start_range(&range);
}

static uint64_t start_wide(const wchar_t *text) {
    struct range range = {0};
    narrow(text, range.name);
    return start_range(&range);
}

static void domain_end(void *domain, uint64_t id) {
    (void)domain;
    end_range(id);
}

/* Keeps a string as long as the program runs. A handle is the string. */
static void *register_name(const char *name) {
    char *kept = strdup(name);
    pthread_mutex_lock(&shared.lock);
    bool done = kept && gs_grow((void **)&shared.strings, &shared.string_capacity, shared.string_count + 1,
                                sizeof *shared.strings);
    if (done)
        shared.strings[shared.string_count++] = kept;
    pthread_mutex_unlock(&shared.lock);
    if (!done)
        free(kept);
    return done ? kept : NULL;
}

static void *register_text(void *domain, const char *text) {
    char name[NAME_BYTES];
    (void)domain;
    copy_name(text, name);
    return register_name(name);
}

static void *register_wide(void *domain, const wchar_t *text) {
    char name[NAME_BYTES];
    (void)domain;
    narrow(text, name);
    return register_name(name);
}

/* A handle that no other domain has. */
static void *create_domain(const void *name) {
    static atomic_uintptr_t last;
    (void)name;
    return (void *)(atomic_fetch_add(&last, 1) + 1);
}

/* ---- the tables ---- */

typedef void (*any_function)(void);

struct callbacks {
    size_t bytes;
    int (*table_of)(int module, any_function ***table, unsigned *count);
};

#define FUNCTION(module, id, function)                                                                                 \
    { module, id, (any_function)(function) }

static void replace_functions(const struct callbacks *callbacks) {
    enum { CORE = 1, CORE2 = 5 };
    static const struct {
        int module;
        unsigned id;
        any_function function;
    } replaced[] = {FUNCTION(CORE, 4, start_attributes), FUNCTION(CORE, 5, start_text),
                    FUNCTION(CORE, 6, start_wide),       FUNCTION(CORE, 7, end_range),
                    FUNCTION(CORE, 8, push_attributes),  FUNCTION(CORE, 9, push_text),
                    FUNCTION(CORE, 10, push_wide),       FUNCTION(CORE, 11, pop),
                    FUNCTION(CORE2, 2, domain_start),    FUNCTION(CORE2, 3, domain_end),
                    FUNCTION(CORE2, 4, domain_push),     FUNCTION(CORE2, 5, domain_pop),
                    FUNCTION(CORE2, 10, register_text),  FUNCTION(CORE2, 11, register_wide),
                    FUNCTION(CORE2, 12, create_domain),  FUNCTION(CORE2, 13, create_domain)};
    for (size_t i = 0; i < sizeof replaced / sizeof replaced[0]; i++) {
        any_function **table = NULL;
        unsigned count = 0;
        if (callbacks->table_of(replaced[i].module, &table, &count) && table && replaced[i].id < count &&
            table[replaced[i].id])
            *table[replaced[i].id] = replaced[i].function;
    }
}

void gs_nvtx_record(gs_recorder *into) {
    atomic_store(&recorder, into);
}

/* NVTX calls it, once for each copy of its header in the program. 1: success. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id));
int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id)) {
    enum { CALLBACKS = 1 };
    const struct callbacks *callbacks = getenv(GS_TRACE_OUTPUT) ? export_table(CALLBACKS) : NULL;
    if (callbacks && callbacks->bytes >= sizeof *callbacks)
        replace_functions(callbacks);
    return 1;
}
