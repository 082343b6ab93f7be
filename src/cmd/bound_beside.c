/*
 * bound_beside.c: gridsmith bound --run REQUEST --beside WORK: when a request of a latency program is done at the
 * latest, while a best-effort program runs. src/model/explain/beside.c has the sum.
 */
#include "bound_beside.h"

#include "model/explain/explain.h"

enum { DEFAULT_AHEAD_US = 50, NS_PER_US = 1000 };

/* The first run of a file. */
static gs_run *read_recording(const char *path, gs_error *error) {
    gs_runs *runs = gs_runs_open(path, error);
    gs_run *run = runs ? gs_runs_next(runs, error) : NULL;
    if (runs && !run && error->code == GS_OK)
        gs_fail(error, GS_E_USAGE, "%s has no run", gs_input_name(path));
    gs_runs_close(runs);
    return run;
}

static double ms_of(int64_t ns) {
    return (double)ns / 1e6;
}

static void put_piece(gs_text *text, const char *title, const gs_request_piece *piece) {
    if (!piece->ns)
        return;
    gs_text_add(text, "%s %.3f ms, %.60s", title, ms_of(piece->ns), piece->kernel);
    if (piece->is_stopped)
        gs_text_add(text, ": a block %.3f ms, exits %.3f ms", ms_of(piece->block_ns), ms_of(piece->exit_ns));
    gs_text_add(text, "\n");
}

/* How long requests take, and how often they come. */
static void put_requests(gs_text *text, const gs_requests *requests) {
    gs_text_add(text, "request: %.3f ms, the longest of %lld recorded; the GPU waits for the host for %.3f ms of it\n",
                ms_of(requests->longest_ns), (long long)requests->count, ms_of(requests->host_ns));
    if (requests->every_ns)
        gs_text_add(text, "requests begin at least %.3f ms after each other\n", ms_of(requests->every_ns));
    else
        gs_text_add(text, "the time between requests is not known, so no kernel counts as one that stops (--every)\n");
}

/* `unstopped`: as if no kernel stopped between its blocks. */
static void put_answer(gs_text *text, const gs_request_bound *found, const gs_request_bound *unstopped,
                       const gs_beside_options *options) {
    put_requests(text, &found->requests);
    gs_text_add(text, "work beside it: %lld stream%s, each with at most %.3f ms between two waits, or one operation\n",
                (long long)found->streams, found->streams == 1 ? "" : "s", ms_of(options->ahead_ns));
    put_piece(text, "  longest that stops between its blocks:", &found->stopped);
    put_piece(text, "  longest that does not stop:           ", &found->unstopped);
    gs_text_add(text, "response: %.3f ms = %.3f stopping + %.3f launch + %.3f request\n", ms_of(found->response_ns),
                ms_of(found->stop_ns), ms_of(found->launch_ns), ms_of(found->requests.longest_ns));
    if (unstopped->response_ns > found->response_ns)
        gs_text_add(text, "if requests come more often, so that kernels do not stop: %.3f ms\n",
                    ms_of(unstopped->response_ns));
    gs_text_add(text, "measured, not guaranteed: the times of both recordings; %s\n", options->machine->found);
}

static void write_piece(gs_writer *writer, const char *key, const gs_request_piece *piece) {
    if (!piece->ns)
        return;
    gs_write_object(writer, key);
    gs_write_string(writer, "kernel", piece->kernel);
    gs_write_us(writer, "duration_us", piece->ns);
    if (piece->is_stopped) {
        gs_write_us(writer, "block_us", piece->block_ns);
        gs_write_us(writer, "exit_us", piece->exit_ns);
    }
    gs_write_us(writer, "lost_us", piece->lost_ns);
    gs_write_end(writer);
}

static void put_json(gs_text *text, const gs_request_bound *found, const gs_request_bound *unstopped,
                     const gs_beside_options *options) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.beside/1");
    gs_write_us(&writer, "response_us", found->response_ns);
    gs_write_us(&writer, "unstopped_response_us", unstopped->response_ns);
    gs_write_us(&writer, "stop_us", found->stop_ns);
    gs_write_us(&writer, "launch_us", found->launch_ns);
    gs_write_us(&writer, "request_us", found->requests.longest_ns);
    gs_write_us(&writer, "host_us", found->requests.host_ns);
    gs_write_int(&writer, "requests", found->requests.count);
    if (found->requests.every_ns)
        gs_write_us(&writer, "every_us", found->requests.every_ns);
    gs_write_int(&writer, "streams", found->streams);
    gs_write_us(&writer, "ahead_us", options->ahead_ns);
    write_piece(&writer, "stopped", &found->stopped);
    write_piece(&writer, "not_stopped", &found->unstopped);
    gs_write_string(&writer, "latencies", options->machine->found);
    gs_write_finish(&writer);
}

static gs_code bound_request(const gs_beside_question *question, const gs_gpu *gpu, const gs_run *request,
                             const gs_run *work, gs_text *text, gs_error *error) {
    gs_machine *opened = question->latencies ? gs_machine_open(question->latencies, error) : NULL;
    gs_beside_options options = {.machine = opened ? opened : gpu->machine,
                                 .range = question->range,
                                 .unstopped = question->unstopped,
                                 .ahead_ns = (question->ahead_us ? question->ahead_us : DEFAULT_AHEAD_US) * NS_PER_US,
                                 .every_ns = question->every_us * NS_PER_US,
                                 .has_guards = !question->no_guard};
    gs_request_bound found, unstopped;
    gs_code code = GS_OK;
    if (question->latencies && !opened)
        return error->code;
    if (!options.machine)
        return gs_fail_no_machine(gpu, error);
    gs_beside_options without = options;
    without.has_guards = false;
    code = gs_bound_request(gpu, request, work, &options, &found, error);
    if (code == GS_OK)
        code = gs_bound_request(gpu, request, work, &without, &unstopped, error);
    if (code == GS_OK)
        (question->json ? put_json : put_answer)(text, &found, &unstopped, &options);
    gs_machine_free(opened);
    return code;
}

gs_code gs_answer_beside(const gs_beside_question *question, gs_text *text, gs_error *error) {
    gs_run *request = read_recording(question->request, error);
    gs_run *work = request ? read_recording(question->work, error) : NULL;
    gs_gpu *gpu = work ? gs_choose_gpu(question->gpu, work, error) : NULL;
    gs_code code = gpu ? bound_request(question, gpu, request, work, text, error) : error->code;
    gs_gpu_free(gpu);
    gs_run_free(work);
    gs_run_free(request);
    return code;
}
