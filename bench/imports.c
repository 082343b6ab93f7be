/*
 * imports.c: the speed of importing traces and reading recorded programs, and the memory that this takes.
 *
 *   bench/imports [MEGABYTES]
 *
 * Makes a trace as the PyTorch profiler writes it (1,000 MB by default) in a temporary file: for each launch a call,
 * four operators of the host and some flow events. Imports it, writes the run as lines, and reads that. Times are those
 * of the processor, so that other load of the machine has little effect.
 */
#include "lab/import/import.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(const gs_error *error) {
    fprintf(stderr, "imports: %s\n", error->message);
    exit(4);
}

static double processor_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double peak_megabytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

static double megabytes_of(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? (double)status.st_size / 1e6 : 0;
}

/* ---- a trace ---- */

static void put_operators(FILE *file, long launch) {
    for (int i = 0; i < 4; i++)
        fprintf(file,
                "  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::linear\", \"pid\": 742, \"tid\": 742,\n"
                "    \"ts\": %ld.%03d, \"dur\": 3.288,\n    \"args\": {\n      \"External id\": %ld,"
                "\"Record function id\": 0, \"Ev Idx\": %ld\n    }\n  },\n",
                launch * 10, i * 100, launch * 4 + i, launch * 4 + i);
    fprintf(file,
            "  {\n    \"ph\": \"s\", \"id\": %ld, \"pid\": 742, \"tid\": 742, \"ts\": %ld.5,\n"
            "    \"cat\": \"ac2g\", \"name\": \"ac2g\"\n  },\n",
            launch, launch * 10);
}

static void put_launch(FILE *file, long launch) {
    fprintf(
        file,
        "  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void at::native::vectorized_elementwise_kernel<%ld, "
        "at::native::CUDAFunctor_add<c10::Half>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::Half>, "
        "std::array<char*, 3ul>)\", \"pid\": 0, \"tid\": 7,\n    \"ts\": %ld.750, \"dur\": 4.928,\n    \"args\": {\n"
        "      \"External id\": %ld,\n      \"queued\": 0, \"device\": 0, \"context\": 1,\n      \"stream\": %ld, "
        "\"correlation\": %ld,\n      \"registers per thread\": 32,\n      \"shared memory\": 16,\n"
        "      \"blocks per SM\": 0.969697,\n      \"warps per SM\": 11.636364,\n      \"grid\": [%ld, 1, 1],\n"
        "      \"block\": [128, 1, 1],\n      \"est. achieved occupancy %%\": 0\n    }\n  },\n",
        launch % 200, launch * 10 + 5, launch, launch % 3 + 7, launch, launch % 300 + 1);
    fprintf(file,
            "  {\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 742, \"tid\": "
            "742,\n    \"ts\": %ld.5, \"dur\": 5.181,\n    \"args\": {\n      \"External id\": %ld,\"cbid\": 652, "
            "\"correlation\": %ld\n    }\n  },\n",
            launch * 10, launch, launch);
}

static long make_trace(const char *path, double megabytes) {
    FILE *file = fopen(path, "w");
    long launches = 0;
    if (!file)
        exit(4);
    fprintf(file, "{\n  \"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H200\", \"numSms\": 132}],\n"
                  "  \"traceEvents\": [\n");
    while ((double)ftell(file) < megabytes * 1e6) {
        put_operators(file, ++launches);
        put_launch(file, launches);
    }
    fprintf(file, "  {\"ph\": \"M\"}\n  ]\n}\n");
    if (fclose(file) != 0)
        exit(4);
    return launches;
}

/* ---- measuring ---- */

static void import_trace(const char *trace, const char *lines, long launches) {
    const gs_import_options options = {.device = GS_NOT_GIVEN};
    gs_imported imported = {0};
    gs_error error;
    double start = processor_seconds(), megabytes = megabytes_of(trace);
    if (gs_import(trace, &options, &imported, &error) != GS_OK)
        fail(&error);
    double seconds = processor_seconds() - start;
    printf("a trace of %.0f MB with %ld launches imported in %.2f s, %.0f MB/s, %.0f MB of memory at the most\n",
           megabytes, launches, seconds, megabytes / seconds, peak_megabytes());
    gs_text text = {.sink = fopen(lines, "w")};
    if (!text.sink)
        exit(4);
    start = processor_seconds();
    gs_run_lines(imported.data[0], &text);
    gs_text_flush(&text);
    printf("its run written in %.2f s\n", processor_seconds() - start);
    fclose(text.sink);
    gs_text_free(&text);
    gs_imported_free(&imported);
}

static void read_lines(const char *lines) {
    gs_error error;
    double start = processor_seconds(), megabytes = megabytes_of(lines);
    gs_runs *runs = gs_runs_open(lines, &error);
    gs_run *run = runs ? gs_runs_next(runs, &error) : NULL;
    if (!run)
        fail(&error);
    double seconds = processor_seconds() - start;
    printf("the run, %.0f MB, read in %.2f s, %.0f MB/s, %.2f s for a million launches\n", megabytes, seconds,
           megabytes / seconds, seconds * 1e6 / (double)gs_run_launches(run));
    gs_run_free(run);
    gs_runs_close(runs);
}

int main(int argc, char **argv) {
    char trace[] = "/tmp/gridsmith-trace-XXXXXX", lines[] = "/tmp/gridsmith-lines-XXXXXX";
    double megabytes = argc > 1 ? strtod(argv[1], NULL) : 1000;
    int first = mkstemp(trace), second = mkstemp(lines);
    if (first < 0 || second < 0)
        return 4;
    close(first);
    close(second);
    import_trace(trace, lines, make_trace(trace, megabytes));
    read_lines(lines);
    unlink(trace);
    unlink(lines);
    return 0;
}
