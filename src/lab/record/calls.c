/*
 * calls.c: the calls of the driver and the runtime that the recorder follows, as a table.
 *
 * CUPTI numbers the functions and hands over their parameters as a struct. For most calls only the stream matters, so a
 * row has its offset in that struct. Some functions of the runtime call functions of the driver that CUPTI reports,
 * too: the recorder takes the outer one.
 */
#include "cupti.h"

#define ROW(call, where, function, number, stream, other, thread)                                                      \
    {.id = (number),                                                                                                   \
     .kind = GS_CALL_##call,                                                                                           \
     .domain = (where),                                                                                                \
     .per_thread = (thread),                                                                                           \
     .stream_at = (stream),                                                                                            \
     .other_at = (other),                                                                                              \
     .symbol = #function},
#define DRIVER(call, function, number, thread, stream, other)                                                          \
    ROW(call, CUPTI_DRIVER, function, number, stream, other, false)                                                    \
    ROW(call, CUPTI_DRIVER, function, thread, stream, other, true)
#define RUNTIME(call, function, number, thread, stream, other)                                                         \
    ROW(call, CUPTI_RUNTIME, function, number, stream, other, false)                                                   \
    ROW(call, CUPTI_RUNTIME, function, thread, stream, other, true)

const gs_call gs_calls[] = {GS_DRIVER_CALLS(DRIVER) GS_RUNTIME_CALLS(RUNTIME)};

const size_t gs_call_count = sizeof gs_calls / sizeof gs_calls[0];
