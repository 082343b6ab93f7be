/*
 * other_file.c: files that are often given in place of runs or traces, and which command reads them.
 *
 * Databases, reports and programs are told by their first bytes or the end of their name.
 */
#include "run.h"

static bool has_ending(const char *path, const char *ending) {
    size_t length = strlen(path), count = strlen(ending);
    return length > count && strcmp(path + length - count, ending) == 0;
}

static bool has_beginning(const char *bytes, size_t count, const char *beginning) {
    size_t length = strlen(beginning);
    return count >= length && memcmp(bytes, beginning, length) == 0;
}

const char *gs_other_file(const char *path, const char *bytes, size_t count) {
    if (has_beginning(bytes, count, "SQLite format 3"))
        return "a database, not runs: 'gridsmith explain' reads it if it is of Nsight Systems, and 'gridsmith import' "
               "makes runs of it";
    if (has_ending(path, ".nsys-rep") || has_ending(path, ".qdrep"))
        return "a report of Nsight Systems: make a database of it with 'nsys export --type sqlite', which 'gridsmith "
               "explain' and 'gridsmith import' read";
    if (has_ending(path, ".ncu-rep"))
        return "a report of Nsight Compute, which has no times of a program: record it with 'gridsmith trace'";
    if (has_beginning(bytes, count, "\177ELF"))
        return "compiled code: 'gridsmith explain -- PROGRAM' records a program, and 'gridsmith occupancy' reads "
               "kernels";
    if (has_ending(path, ".py"))
        return "a program: 'gridsmith explain -- python FILE' records it";
    return NULL;
}
