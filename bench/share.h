/* share.h: what bench/share measures (share.c) and how it is printed (report.c). */
#ifndef GS_BENCH_SHARE_H
#define GS_BENCH_SHARE_H

#include "services.h"

enum {
    MOST_APPLICATIONS = 16,
    MOST_PAIRS = MOST_APPLICATIONS * (MOST_APPLICATIONS + 1) / 2,
    MOST_REPEATS = 100,
    MOST_FAILURES = 3
};

/* ---- what is measured ---- */

typedef struct series {
    double values[MOST_REPEATS];
    int count;
} series;

typedef struct alone {
    bool is_measured;
    series ms;
    double setup_ms, compile_ms;
} alone;

typedef struct application {
    const char *name, *letters;
    uint32_t repeat;
    bool is_selected;
    alone direct, served;
    series loading_ms;              /* through the daemon, without cached images */
    alone long_direct, long_served; /* rounds of 30 seconds */
} application;

typedef struct outcome {
    bool is_measured;
    series makespan_ms, first_ms, second_ms;
} outcome;

enum mode { TIME_SLICED, MPS, GREEN, STREAMS, GRIDSMITH, PLANNED, MODES };

extern const struct mode_names {
    char letter;
    const char *name, *words;
} modes[MODES];

typedef struct pair {
    application *first, *second;
    bool is_selected;
    outcome outcomes[MODES];
} pair;

typedef struct launch_times {
    bool is_measured;
    double waited_us, pipelined_us;
} launch_times;

struct bench {
    double seconds;
    int repeats, warm_up, sms, limit_seconds;
    double patience_seconds; /* for one step of a child, in addition to the time that it should take */
    const char *size, *only, *plan;
    char *kernels;
    bool is_json, is_long, is_brief;
    FILE *table; /* the stream of the tables */
    bool is_used[MODES];
    int failures[MODES]; /* in a row */
    char why_not[MODES][200];
    application applications[MOST_APPLICATIONS];
    int application_count;
    pair pairs[MOST_PAIRS];
    int pair_count;
    launch_times launch[2]; /* direct, served */
    int64_t began_ns;
    int wrong;
    struct services services;
};

/* ---- output: tables as they fill, at the end averages and overheads, or JSON ---- */

void print_alone(const struct bench *bench, const application *app);
void print_header(const struct bench *bench);
void print_pair(const struct bench *bench, const pair *of);
void print_averages(const struct bench *bench);
void print_overheads(const struct bench *bench);
void print_json(const struct bench *bench);

#endif
