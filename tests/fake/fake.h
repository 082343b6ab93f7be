/*
 * fake.h: a CUDA driver, CUPTI, a run-time compiler and cuBLAS that need no GPU, for tests.
 *
 *   driver.c        libcuda.so.1: starting, the device, the context, memory, functions by name
 *   function.c      modules and kernels
 *   stream.c        streams, events, copies
 *   stream_queue.c  the queue of a stream: what it does in order
 *   launch.c        launches
 *   graph.c         CUDA graphs and captures; a driver built with FAKE_WHOLE does not show them
 *   green.c         green contexts; a driver built without them is older than CUDA 12.4
 *   gpu.c           the GPU behind it: places blocks with the dispatcher of src/model/engine, and plays the probe
 *                   kernel
 *   timed.c         the SMs of the GPU: timed kernels, cycle by cycle
 *   library.c       kernels of users: run on the CPU
 *   cubin.c         kernels of machine code: they take their time, and count their blocks
 *   dump.c          dumps of the GPU on demand
 *   tell.c          tells CUPTI of calls and work
 *   cupti.c         libcupti.so.13: callbacks and records
 *   compiler.c      libnvrtc.so.13: finds the kernels in a source and lists them in an "image"
 *   blas.c          libcublas.so.13: products on the CPU
 *
 * What a kernel does depends on where it comes from. Probe kernels and timed kernels run on the modeled GPU. Kernels of
 * other modules run on the CPU. A kernel without a module (NULL) is only a name: one with `kernel_500` in it takes 500
 * us, others no time, and both do nothing; events tell their time, however busy the machine is.
 *
 * GRIDSMITH_FAKE is a list of words, separated by commas. The GPU is `small` (the default; small.json, which is not
 * built in) or `h200`. Its behavior:
 *
 *   init-fails     the driver does not start            no-device      it starts, and finds no GPU
 *   compile-fails  a kernel does not compile            coarse         registers are allocated in sixteens
 *   launch-fails   the third launch is refused          blocks-host    growing local memory blocks the launch call
 *   late           blocks start up to 100 us late       stuck          no kernel ever ends
 *   torn           the report of a block arrives in two parts
 *   slows-down     programs take longer than the sum of their instructions
 *   three-gpus     there are three, unless CUDA_VISIBLE_DEVICES is the number of one; its number is in the UUID
 *   nvl            the name of the GPU ends with NVL
 *   refuses        every fifth launch or copy is refused
 *   no-waits       streams cannot wait for a word       no-graph-waits graphs cannot
 *   no-clones      graphs cannot be copied
 *   drops          CUPTI loses every tenth record       nameless       it has no record of the GPU
 *   subscribed     another profiler uses CUPTI          slow-dump      a dump is written with a pause
 *   failed         an event is never ready, because a kernel has failed
 *   slow-load      a module is loaded in three seconds of computing
 *   patient        keepers (src/sharing/gate/gate_keeper.c) do not lose their patience
 *   blas-fails     cuBLAS does not start              slow-blas      a product takes 30 ms
 *   unpaired       what stands behind a keeper is refused
 *
 * GRIDSMITH_FAKE_DUMP names a file that is copied to CUDA_COREDUMP_FILE when something is written to
 * CUDA_COREDUMP_PIPE.
 *
 * For tests alone the driver has the functions at the end of this file. GRIDSMITH_FAKE_QUESTIONS names a file to which
 * it adds how often it was asked for an attribute of a kernel.
 */
#ifndef GS_FAKE_H
#define GS_FAKE_H

#include "kernels/sass/sass.h"
#include "lab/device/probe.h"
#include "lab/device/timed.h"
#include "lab/record/cupti.h"
#include "model/gpu/gpu.h"
#include "sharing/gate/gate_keeper.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The real driver's threads have names that begin so. */
#define FAKE_THREAD_NAME "cuda-fake"

static inline bool fake_has(const char *word) {
    const char *at = getenv("GRIDSMITH_FAKE");
    size_t length = strlen(word);
    for (; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, length) == 0 && (!at[length] || at[length] == ','))
            return true;
    return false;
}

/* The image that the compiler writes and the driver loads: this line, then a line for each kernel, "timed NUMBER BODY
   COUNT". The probe kernel is PTX, which the driver reads itself. */
#define FAKE_IMAGE "fake image\n"

/* For other kernels: this line, the number of bytes that follow, and a shared library of
   src/kernels/cpu/runtime/gridsmith_run.c with the kernels, which run on the CPU. */
#define FAKE_LIBRARY "fake library\n"

#define FAKE_VISIBLE __attribute__((visibility("default"))) int
/* Declares a function of the tables of symbols of src/kernels/cuda. */
#define FAKE_CALL(name, symbol, arguments) FAKE_VISIBLE symbol arguments;

enum {
    FAKE_OK,
    FAKE_INVALID_VALUE = 1,
    FAKE_OUT_OF_MEMORY = 2,
    FAKE_NOT_INITIALIZED = 3,
    FAKE_NO_DEVICE = 100,
    FAKE_INVALID_DEVICE = 101,
    FAKE_INVALID_IMAGE = 200,
    FAKE_INVALID_CONTEXT = 201,
    FAKE_INVALID_PTX = 218,
    FAKE_NOT_FOUND = 500,
    FAKE_NOT_READY = 600,
    FAKE_ILLEGAL_ADDRESS = 700,
    FAKE_OUT_OF_RESOURCES = 701,
    FAKE_NOT_SUPPORTED = 801,
    FAKE_MPS_RPC_FAILURE = 806,
    FAKE_CAPTURE_UNSUPPORTED = 900,
    FAKE_CAPTURE_INVALIDATED = 901
};

/* ---- the GPU ---- */

typedef struct fake_gpu fake_gpu;

/* A launch as a node of a graph: it waits for the nodes `after`, whose ids count from `first_id`, and for no stream. */
typedef struct fake_place {
    bool is_node;
    uint64_t id, first_id, after;
} fake_place;

/* The first of `count` new ids of launches. */
uint64_t fake_gpu_next_id(size_t count);

/* A launch that the driver sends to the GPU. */
typedef struct fake_launch {
    probe_arguments arguments;
    gs_shape shape;
    int64_t blocks;
    int urgency; /* launches with a higher urgency go first */
    cu_stream stream;
    bool is_cooperative;  /* it starts as a whole */
    bool is_programmatic; /* it starts when all blocks of the launch before it in its stream have */
    fake_place node;
} fake_launch;

/* An idle GPU with a thread of its own. Keeps `description`, which must outlive it. NULL: out of memory. */
fake_gpu *fake_gpu_new(const gs_gpu *description);
void fake_gpu_free(fake_gpu *gpu);

/* False: no SM can ever take a block of the kernel. */
bool fake_gpu_launch(fake_gpu *gpu, const fake_launch *launch);

/* Waits until nothing runs or waits, and resets the GPU. */
void fake_gpu_synchronize(fake_gpu *gpu);
bool fake_gpu_is_idle(fake_gpu *gpu, cu_stream stream);

/* Runs a timed kernel to its end. False: its blocks do not fit on the GPU together. */
bool fake_time(const gs_gpu *description, int body, int count, const cu_launch *call, const timed_arguments *arguments);
/* What an instruction of a row of gs_timed_rows takes, in cycles: alone, on a GPU full of them, and of its unit for
   each transaction. The memory serves several transactions at once. */
enum { FAKE_MEMORY_UNITS = 64 };
void fake_class_times(size_t row, int64_t *latency, int64_t *loaded, int64_t *held);
/* A shared library of kernels, from an image. NULL: it cannot be loaded. */
typedef struct fake_library fake_library;
fake_library *fake_library_load(const void *image);
fake_library *fake_library_compile(const char *ptx);
void fake_library_free(fake_library *library);
int fake_library_find(const fake_library *library, const char *kernel); /* -1: not found */

uint32_t fake_library_sizes(const fake_library *library, int kernel, const unsigned **sizes);
/* Runs one of its kernels to its end. */
void fake_library_launch(const fake_library *library, int kernel, const cu_launch *call, uint32_t sms,
                         void **arguments);

/* ---- the driver ---- */

typedef struct fake_driver {
    atomic_bool started;
    gs_gpu *description;
    fake_gpu *gpu;              /* NULL: no context */
    int holders;                /* of the context */
    _Atomic int64_t objects;    /* streams, modules and memory that were not released */
    _Atomic int64_t probes;     /* launches of probe and timed kernels */
    _Atomic uint64_t attempted; /* launches and copies */
    /* what the driver was asked to do: fake_counts */
    _Atomic uint64_t waits, launches, queries, writes, graph_waits, stops, keepers;
} fake_driver;

extern fake_driver fake;
cu_context fake_current(void); /* of this thread */

/* ---- kernels ---- */

struct cu_function {
    char name[64];
    enum { FAKE_NAMED, FAKE_PROBE, FAKE_TIMED, FAKE_OF_LIBRARY, FAKE_OF_CUBIN, FAKE_OF_GATE } kind;
    int registers, shared_bytes;
    int body, count; /* of a timed kernel */
    int64_t local_bytes;
    int most_shared_bytes, carveout_percent, cache_config;
    bool any_cluster, is_fault;
    fake_library *library;
    int number;  /* in that library */
    uint64_t us; /* of a kernel without a module; of a block of one of a cubin */
    bool is_guarded;
    char kernel; /* its address is the handle of the kernel, as opposed to its function */
    cu_function next;
};

/* ---- streams ---- */

typedef struct fake_queue fake_queue;

/* A launch of a kernel of a cubin. */
typedef struct fake_blocks {
    uint32_t count, resident;
    uint64_t us;
    uint32_t *counters;
    bool is_guarded;
    gs_guard_parameter guard;
} fake_blocks;

/* A keeper: what it reads, and when it ends. */
typedef struct fake_keeper {
    const _Atomic uint32_t *flags;
    gs_keeper_words *words;
    uint32_t bit, number;
    uint64_t patience_ns, most_ns;
} fake_keeper;

/* An operation of a stream. */
typedef struct fake_step {
    enum {
        FAKE_KERNEL,
        FAKE_BLOCKS,
        FAKE_KEEPER,
        FAKE_NAP,
        FAKE_COPY,
        FAKE_SET,
        FAKE_SET_WORDS,
        FAKE_WRITE,
        FAKE_WAIT,
        FAKE_WAIT_EVENT,
        FAKE_HOST,
        FAKE_RECORD
    } kind;
    const fake_library *library; /* of a kernel, else NULL */
    int kernel;
    bool is_fault;
    cu_launch call;
    uint32_t sms;
    void *to;
    const void *from;
    size_t bytes;
    uint32_t value;
    uint64_t number; /* of a record, also of one that is waited for; of a nap, how many us */
    cu_event event;
    void (*function)(void *); /* of the host; `to` is its argument */
    fake_blocks blocks;
    fake_keeper keeper;
} fake_step;

void fake_sleep_us(uint64_t us);

/* ---- cubins ---- */

bool fake_is_cubin(const void *image);
/* Its kernels. Returns how many there are. */
int fake_cubin_read(const void *bytes, struct cu_function *functions, int most);
int fake_cubin_parameter(cu_function function, size_t number, size_t *offset, size_t *bytes);
/* Runs a kernel. Returns how many us it takes. */
uint64_t fake_cubin_run(const fake_step *step);

/* ---- queues ---- */

extern fake_queue fake_default_queue;
fake_queue *fake_queue_new(void);
void fake_queue_free(fake_queue *queue); /* waits for kernels and copies, but not for naps and words */
void fake_queue_add(fake_queue *queue, const fake_step *step, void **arguments); /* copied */
bool fake_queue_is_idle(fake_queue *queue);
void fake_queue_wait(fake_queue *queue); /* until it is idle, or the context is broken */
bool fake_is_broken(void);

enum { FAKE_MOST_AFTER = 64, FAKE_MOST_NODES = 256 };

/* A place in a graph: the nodes that come next wait for these. */
typedef struct fake_front {
    struct fake_node *last[FAKE_MOST_AFTER];
    size_t count;
} fake_front;

struct cu_stream {
    uint32_t id;
    int priority;
    fake_queue *queue;
    void *green;         /* its green context; NULL: none */
    _Atomic int capture; /* 0: none; 1: it captures; 2: the capture is invalid */
    int capture_mode;
    uint64_t capture_thread;
    struct fake_graph *captured;
    fake_front front;
};

struct cu_event {
    _Atomic uint64_t asked, done; /* records */
    _Atomic int waiting;          /* streams that wait for one */
    int64_t at_ns;                /* of the clock of its stream */
    struct fake_graph *captured;
    fake_front front;
};

cu_stream fake_stream(cu_stream stream); /* the default stream for NULL and the two special handles */
/* Adds an operation to a stream, unless the context is broken. */
int fake_add_step(cu_stream stream, const fake_step *step);
/* A call that could be unsafe while streams capture: not 0, an error of the driver, if one of them does that this
   thread must respect (cuThreadExchangeStreamCaptureMode). That capture is invalid then. */
int fake_unsafe(void);

/* ---- graphs ---- */

enum {
    FAKE_NODE_KERNEL = 0,
    FAKE_NODE_COPY = 1,
    FAKE_NODE_SET = 2,
    FAKE_NODE_GRAPH = 4,
    FAKE_NODE_RECORD = 7,
    FAKE_NODE_WAIT = 12
};

typedef struct fake_node {
    struct fake_graph *graph; /* that it is in */
    uint64_t id;
    int type, priority;
    cu_function function; /* of a kernel */
    cu_launch call;
    uint32_t cluster[3];
    probe_arguments arguments;
    fake_blocks blocks; /* of a kernel of a cubin */
    void *values[1];    /* its arguments, for who asks */
    size_t bytes;       /* of a copy or a memset */
    void *to;           /* of a memset of words */
    cu_event event;     /* of a record */
    const struct fake_node *original;
    uint8_t copy_kind;
    _Atomic uint32_t *word; /* of a wait */
    uint32_t value;         /* of that, or of a memset */
    struct fake_batch {     /* the wait, for who asks; 48 bytes */
        int operation;
        cu_pointer address;
        uint64_t value;
        unsigned flags;
        uint64_t rest[2];
    } batch;
    struct fake_graph *child;
    fake_front after;
    uint8_t edge_type, edge_port; /* of the edges to those before it */
} fake_node;

typedef struct fake_graph {
    fake_node *nodes[FAKE_MOST_NODES];
    size_t count;
} fake_graph;

/* Adds a node to the graph that a stream captures. Returns an error of the driver. */
int fake_capture(cu_stream stream, const fake_node *node);
/* The node of a launch. */
fake_node fake_kernel_node(const cu_launch *call, cu_function function, void **arguments);
/* The blocks of a launch of a kernel of a cubin. */
fake_blocks fake_blocks_of(const cu_launch *call, cu_function function, void **arguments);
/* Launches a probe kernel as a node of a graph. Returns an error of the driver. */
int fake_launch_probe(const cu_launch *call, cu_function function, const void *arguments, const fake_place *place);

/* ---- CUPTI ---- */

/* A call that is reported to CUPTI, before and after. */
typedef struct fake_telling {
    cupti_call call;
    uint32_t number;
    int result;
} fake_telling;

void fake_connect_cupti(void);
void fake_tell(fake_telling *telling, const char *function, const void *parameters);
int fake_told(fake_telling *telling, int result); /* returns `result` */
void fake_tell_graph(uint32_t number, const cupti_graph *graph);
/* A record of work that is done; `graph` is 0 if it is not a node. */
void fake_tell_work(const fake_node *node, uint32_t stream, uint32_t correlation, uint32_t graph);

/* The driver finds these functions of cupti.c with dlsym when CUPTI is loaded. */
__attribute__((visibility("default"))) void fake_cupti_call(uint32_t number, const cupti_call *call);
__attribute__((visibility("default"))) void fake_cupti_graph(uint32_t number, const cupti_graph *graph);
__attribute__((visibility("default"))) void fake_cupti_record(const void *record, size_t size);

/* Whether this is the context of the GPU, or a green one: the GPU's address and the number of a part. */
static inline bool fake_is_context(cu_context context, const fake_gpu *gpu) {
    enum { MOST_PARTS = 64 };
    return gpu && (uintptr_t)context - (uintptr_t)gpu <= MOST_PARTS;
}

void fake_offer_dumps(void);

/* Drops everything that runs or waits, before the memory that it writes to is freed. */
void fake_gpu_forget(fake_gpu *gpu);

/* ---- for tests ---- */

/* Waits put into streams, launches, queries, words written, waits in graphs, launches that were stopped, keepers that
   have not ended. */
FAKE_VISIBLE fake_counts(uint64_t *counts);
/* Ends the part that a stream has in the capture of another one. */
FAKE_VISIBLE fake_leave_capture(cu_stream stream);
/* Adds a node of a type that runs nothing, or a child graph. */
FAKE_VISIBLE fake_add_node(fake_graph *graph, int type, fake_graph *child);
/* The kernel of a function. */
FAKE_VISIBLE fake_get_kernel(void **kernel, cu_function function);

#endif
