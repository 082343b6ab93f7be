/*
 * pairs.h: what bench/pairs measures (pairs.c), and its parts:
 *
 *   cards    the GPU, through the driver (side.c)
 *   sides    a kernel on the GPU, in its forms; launching it (side.c)
 *   parts    streams that use a part of the SMs (parts.c)
 *   probes   kernels that use one unit of an SM only (unit_probes.c)
 *   clients  a process under MPS for each side (clients.c)
 *   meters   the clock and the power while something runs (clocks.c)
 *   tables   the output (pairs_table.c)
 */
#ifndef GS_BENCH_PAIRS_H
#define GS_BENCH_PAIRS_H

#include "kernels/zoo/zoo.h"
#include "services.h"

enum { PAIR_FORMS = 3, PAIR_QUEUES = 4096, PAIR_MASK_WORDS = 32, PAIR_MOST_REPEATS = 25 };

/* ---- cards ---- */

typedef struct pair_card {
    cu_api api;
    int device, sms, architecture;
    bool has_context;
    cu_event began;
    gs_modules comparison;
    cu_kernel differ;     /* counts words that differ */
    cu_pointer differing; /* the count */
    gs_gpu *gpu;          /* its description, to ask what fits */
} pair_card;

/* False: failed, with the reason on standard error. */
bool card_open(pair_card *card);
void card_close(pair_card *card);
/* Prints the failure; false if `code` is not 0. */
bool card_check(const pair_card *card, int code, const char *what);

/* ---- units: the least work of a kernel in a pass ---- */

enum pair_unit { UNIT_TENSOR, UNIT_FMA, UNIT_ISSUE, UNIT_DRAM, PAIR_UNITS };

typedef struct unit_row {
    const char *name, *words;
    double peak; /* per second, of an H200 */
} unit_row;

extern const unit_row pair_units[PAIR_UNITS];

/* ---- sides ---- */

typedef struct side_kernel {
    gs_modules modules;
    cu_kernel kernel;
    gs_cost cost;
    uint32_t limit; /* of registers; 0: none */
} side_kernel;

typedef struct pair_side {
    const char *name;
    const gs_zoo_kernel *kernel; /* NULL: cuBLAS */
    const char *text;            /* of a probe, which is not in the zoo: its PTX, or NULL */
    gs_zoo_size size;
    double work[PAIR_UNITS];
    gs_zoo_instance instance;
    bool is_changed[GS_ZOO_BUFFERS];
    bool is_used;   /* in a pair that is measured */
    bool has_forms; /* persistent and confined ones are wanted */
    bool is_ready, failed;
    char why[300];
    gs_cubin cubins[PAIR_FORMS][GS_ZOO_KINDS];
    side_kernel forms[PAIR_FORMS][GS_ZOO_KINDS];
    cu_pointer memory[GS_ZOO_BUFFERS], saved[GS_ZOO_BUFFERS], kept[GS_ZOO_BUFFERS]; /* inputs and right results */
    cu_pointer control;     /* the words of a gs_control, then a counter for each confined launch */
    cu_stream stream, part; /* part: on some SMs of the GPU, while it is measured there; or NULL */
    cu_event ended;
    gs_blas *blas; /* of a side without a kernel */
    uint32_t repeat, launched; /* passes in a round; confined launches in this round */
    double pass_ms;            /* alone */
    double ended_ms;           /* after the beginning of the last round with another side */
} pair_side;

/* How a side is launched. */
typedef struct pair_way {
    enum gs_form form;
    uint32_t workers[GS_ZOO_KINDS]; /* persistent: worker blocks per SM */
    int first_sm, sms;              /* confined: the SMs of its mask */
    uint32_t passes;                /* how many passes have this form, the others are originals; 0: all */
    bool has_carveout;              /* requests all shared memory, so that a kernel that needs much can run beside it */
} pair_way;

/* Opens cuBLAS for a side without a kernel; `library` is NULL or its path. False: it is not there, see `why`. */
bool side_open_blas(pair_side *side, const char *library);
/* Uses the stream of the side, if it is cuBLAS. */
bool side_use_blas(pair_side *side);
/* Makes inputs and compiles; needs no GPU. May run in a thread of its own. */
void side_prepare(pair_side *side, int architecture);
/* Copies the inputs, and loads the kernels. */
bool side_load(pair_side *side, pair_card *card);
void side_free(pair_side *side, const pair_card *card);
/* Before a round: clears the queues of confined launches and sets the mask. */
bool side_arm(pair_side *side, pair_card *card, const pair_way *way);
/* Launches all kernels of the instance once, without waiting. */
bool side_pass(pair_side *side, pair_card *card, const pair_way *way);
bool side_restore(pair_side *side, pair_card *card);
/* Whether each confined launch of the round has run all its blocks: its workers may have found no room on their SMs. */
bool side_is_complete(const pair_side *side, pair_card *card, const pair_way *way);
cu_stream side_stream(const pair_side *side);
/* Stores the results as the correct ones, or compares with them. */
bool side_keep(pair_side *side, pair_card *card);
bool side_is_right(pair_side *side, pair_card *card);
/* The shape of the blocks of a form. */
gs_shape side_shape(const pair_side *side, enum gs_form form, size_t kind);
/* How many blocks fit on an SM beside `blocks` blocks of another shape on each. */
uint32_t card_fit(const pair_card *card, const gs_shape *shape, const gs_shape *other, uint32_t blocks);

/* ---- parts ---- */

/* Makes a stream on `sms` SMs, and one on the others. False: the driver cannot. */
bool parts_make(const pair_card *card, int sms, cu_stream *first, cu_stream *others);

/* ---- probes ---- */

enum { PAIR_PROBES = 7 };

/* A side that uses one unit: FMAs, additions, shifts, special functions, shared memory or device memory. */
void probe_make(pair_side *side, int number);
void probes_free(void);

/* ---- clients ---- */

enum { PAIR_MOST_SIDES = 32 };

typedef struct pair_clients pair_clients;

/* Starts MPS and a process for each side; must be called before this process uses CUDA. NULL: see `why`. */
pair_clients *clients_start(const pair_side *sides, size_t count, const char *library, const char *self, char *why,
                            size_t size);
/* Waits until all can begin. False: some cannot. */
bool clients_wait(pair_clients *clients, double seconds);
/* A round of both: the makespan, or 0. */
double clients_round(pair_clients *clients, size_t a, uint32_t a_repeat, size_t b, uint32_t b_repeat);
void clients_stop(pair_clients *clients);

/* ---- meters ---- */

typedef struct pair_clock {
    double mhz, watts; /* watts 0: not known */
    double burst_mhz;  /* of the first milliseconds, after the GPU was idle */
    double round_ms;   /* the mean */
    int rounds;
} pair_clock;

typedef struct pair_meter pair_meter;

pair_meter *meter_open(const pair_card *card); /* NULL: failed */
void meter_close(pair_meter *meter);           /* may be NULL */
/* Runs rounds for half a second, and finds the clock and the power of the last two thirds of it. `round` returns its
   duration; 0: it failed. */
bool meter_watch(pair_meter *meter, double (*round)(void *context), void *context, pair_clock *clock);

/* ---- measurements ---- */

typedef struct pair_series {
    double ms[PAIR_MOST_REPEATS];
    int count;
} pair_series;

double series_median(const pair_series *series);
double series_spread_percent(const pair_series *series);

enum pair_mode { MODE_SERIAL, MODE_STREAMS, MODE_MPS, MODE_INSIDE, MODE_SPLIT, PAIR_MODES };

/* A way to run both. */
typedef struct pair_trial {
    pair_way ways[2];
    bool b_is_first;    /* the second is launched first */
    int part_sms;       /* of the first, if both are on parts of the GPU; or 0 */
    double ms;          /* the best makespan */
    double ended_ms[2]; /* of each, of the last round */
} pair_trial;

typedef struct pair_trials {
    pair_trial list[32];
    size_t count;
} pair_trials;

/* The work that runs while clocks are measured: one of both, and both inside. */
enum pair_clocks { CLOCK_FIRST, CLOCK_SECOND, CLOCK_INSIDE, PAIR_CLOCKS };

typedef struct pair_result {
    const pair_side *a, *b;
    pair_series series[PAIR_MODES]; /* of makespans */
    double a_ms, b_ms;              /* alone, medians */
    pair_trial inside, split;
    pair_trials insides, splits;
    pair_clock clocks[PAIR_CLOCKS]; /* without rounds: not measured */
    bool is_wrong;
} pair_result;

double pair_gain_percent(const pair_result *result, enum pair_mode mode); /* throughput, over one after the other */
/* The most used unit in a mode, in percent of its peak. */
enum pair_unit pair_unit_of(const pair_result *result, enum pair_mode mode, double *percent);
enum pair_mode pair_best(const pair_result *result);

void table_side(const pair_side *side);
void table_pair_head(void);
void table_pair(const pair_result *result);
void table_clocks(const pair_result *result); /* a line, if they were measured */
void table_averages(const pair_result *results, size_t count);
void table_json(FILE *file, const pair_side *sides, size_t side_count, const pair_result *results, size_t count);

#endif
