/*
 * run.c: making, copying, freeing and inspecting runs.
 */
#include "run.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *gs_op_name(gs_op op) {
    static const char *const names[] = {[GS_LAUNCH] = "launch", [GS_EXIT] = "exit", [GS_OBSERVE] = "observe"};
    return names[op];
}

const char *gs_when_name(gs_when when) {
    static const char *const names[] = {[GS_AT_END] = "end", [GS_AT_TRIGGER] = "trigger", [GS_AT_START] = "start"};
    return names[when];
}

const char *gs_copy_kind_name(gs_copy_kind kind) {
    static const char *const names[GS_COPY_KINDS] = {
        [GS_COPY_HOST_TO_DEVICE] = "host_to_device",     [GS_COPY_DEVICE_TO_HOST] = "device_to_host",
        [GS_COPY_DEVICE_TO_DEVICE] = "device_to_device", [GS_COPY_PEER_TO_PEER] = "peer_to_peer",
        [GS_COPY_HOST_TO_HOST] = "host_to_host",
    };
    return names[kind];
}

gs_launch_facts gs_launch_facts_none(void) {
    return (gs_launch_facts){.static_shared_bytes = GS_NOT_GIVEN,
                             .shared_config_bytes = GS_NOT_GIVEN,
                             .device = GS_NOT_GIVEN,
                             .process = GS_NOT_GIVEN,
                             .context = GS_NOT_GIVEN,
                             .green_context = GS_NOT_GIVEN,
                             .graph = GS_NOT_GIVEN,
                             .node = GS_NOT_GIVEN};
}

gs_issue gs_issue_none(void) {
    return (gs_issue){.at_ns = GS_NO_TIME, .start_ns = GS_NO_TIME, .end_ns = GS_NO_TIME};
}

gs_launch gs_launch_default(void) {
    return (gs_launch){
        .cluster = 1, .shape = {.carveout_percent = GS_NO_CARVEOUT}, .exit = SIZE_MAX, .issue = gs_issue_none()};
}

void gs_launch_clear(gs_launch *launch) {
    free(launch->kernel);
    free(launch->stream);
    free(launch->issue.id);
    *launch = gs_launch_default();
}

void gs_seen_clear(gs_seen *seen) {
    free(seen->placed.data);
    free(seen->brief.placed.data);
    free(seen->warp_slots.slots);
    free(seen->warp_slots.ends);
    free(seen->start_ns.data);
    free(seen->end_ns.data);
    *seen = (gs_seen){0};
}

/* The observation of events without one. */
static const gs_seen nothing = {0};

gs_seen *gs_event_see(gs_event *event) {
    if (event->seen == &nothing) {
        gs_seen *own = calloc(1, sizeof *own);
        if (own)
            event->seen = own;
        return own;
    }
    return (gs_seen *)event->seen; /* it was allocated here */
}

static void event_clear(gs_event *event) {
    if (event->seen != &nothing) {
        gs_seen *own = gs_event_see(event);
        gs_seen_clear(own);
        free(own);
    }
    free(event->why);
}

gs_run *gs_run_new(gs_error *error) {
    gs_run *run = calloc(1, sizeof *run);
    if (!run) {
        gs_fail_memory(error);
        return NULL;
    }
    run->origin.device = run->origin.process = run->origin.start_unix_ns = GS_NOT_GIVEN;
    run->end_ns = GS_NO_TIME;
    return run;
}

void gs_run_free(gs_run *run) {
    if (!run)
        return;
    for (size_t i = 0; i < run->events.count; i++)
        event_clear(&run->events.data[i]);
    free(run->launches.data);
    free(run->events.data);
    free(run->copies.data);
    free(run->edges.data);
    free(run->ranges.data);
    free(run->class_name);
    free(run->gpu);
    free(run->assumed);
    gs_green_clear(&run->green_contexts);
    free(run->origin.program);
    free(run->origin.recorder);
    free(run->origin.gpu_name);
    free(run->origin.lacks);
    gs_names_free(&run->ids);
    gs_strings_free(&run->strings);
    gs_json_free(&run->source);
    free(run);
}

gs_event *gs_run_add_event(gs_run *run, gs_op op, size_t launch, gs_error *error) {
    if (!GS_RESERVE(&run->events, 1)) {
        gs_fail_memory(error);
        return NULL;
    }
    gs_event *event = &run->events.data[run->events.count++];
    *event = (gs_event){.op = op, .launch = launch, .seen = &nothing};
    if (op == GS_EXIT)
        run->launches.data[launch].exit = run->events.count - 1;
    else
        run->launches.data[launch].observed = run->events.count - 1;
    return event;
}

gs_code gs_run_add_exit(gs_run *run, size_t launch, gs_error *error) {
    return gs_run_add_event(run, GS_EXIT, launch, error) ? GS_OK : GS_E_MEMORY;
}

/* ---- launches and copies ---- */

/* Replaces a string by the run's own. */
static bool own_string(gs_run *run, char **string) {
    if (*string)
        *string = gs_strings_add(&run->strings, *string, strlen(*string));
    return *string != NULL;
}

/* The same for all strings of an issue. The id is new, so it is not searched among the strings. */
static bool own_issue(gs_run *run, gs_issue *issue) {
    issue->after = issue->after_count = 0;
    if (issue->id)
        issue->id = gs_strings_keep(&run->strings, issue->id, strlen(issue->id));
    const gs_launch_facts *facts = issue->facts;
    gs_launch_facts none = gs_launch_facts_none();
    if (facts && memcmp(facts, &none, sizeof none) == 0)
        issue->facts = NULL;
    else if (facts)
        issue->facts = (const void *)gs_strings_add(&run->strings, facts, sizeof *facts);
    return !facts || issue->facts || memcmp(facts, &none, sizeof none) == 0;
}

/* The number in `ids` of a launch or copy. */
static size_t id_number(size_t number, bool is_copy) {
    return number * 2 + is_copy;
}

bool gs_run_find(const gs_run *run, const char *id, gs_edge *found) {
    size_t known = gs_names_find(&run->ids, id);
    if (known != SIZE_MAX)
        *found = (gs_edge){.number = (uint32_t)(known / 2), .is_copy = known % 2};
    return known != SIZE_MAX;
}

gs_code gs_run_shorten(gs_run *run, gs_short_names *names, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++)
        code = gs_short_names_add(names, run->launches.data[i].kernel, error);
    if (code == GS_OK)
        code = gs_short_names_make(names, error);
    gs_names_free(&run->ids);
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++) {
        gs_launch *launch = &run->launches.data[i];
        const char *brief = gs_short_name(names, launch->kernel);
        launch->kernel = gs_strings_add(&run->strings, brief, strlen(brief));
        const char *id = launch->issue.id ? launch->issue.id : launch->kernel;
        if (!launch->kernel || gs_names_add(&run->ids, id, id_number(i, false)) == SIZE_MAX)
            code = gs_fail_memory(error);
    }
    for (size_t i = 0; i < run->copies.count && code == GS_OK; i++) {
        const char *id = run->copies.data[i].issue.id;
        if (id && gs_names_add(&run->ids, id, id_number(i, true)) == SIZE_MAX)
            code = gs_fail_memory(error);
    }
    return code;
}

gs_code gs_run_copy_launch(gs_run *run, const gs_launch *from, gs_error *error) {
    gs_launch launch = *from;
    size_t number = run->launches.count;
    bool had_id = from->issue.id != NULL;
    bool is_owned = own_string(run, &launch.kernel) && (!from->stream || own_string(run, &launch.stream)) &&
                    own_issue(run, &launch.issue) && (!had_id || launch.issue.id);
    if (!is_owned || !GS_RESERVE(&run->launches, 1) ||
        gs_names_add(&run->ids, had_id ? launch.issue.id : launch.kernel, id_number(number, false)) == SIZE_MAX)
        return gs_fail_memory(error);
    launch.event = run->events.count;
    launch.exit = SIZE_MAX;
    run->launches.data[run->launches.count++] = launch;
    return gs_run_add_event(run, GS_LAUNCH, number, error) ? GS_OK : GS_E_MEMORY;
}

gs_code gs_run_add_launch(gs_run *run, const gs_launch *launch, gs_error *error) {
    gs_launch owned = *launch;
    gs_code code = gs_run_copy_launch(run, launch, error);
    gs_launch_clear(&owned);
    return code;
}

gs_code gs_run_add_numbered(gs_run *run, const gs_shape *shape, int64_t blocks, gs_error *error) {
    gs_launch launch = gs_launch_default();
    char name[24];
    snprintf(name, sizeof name, "k%zu", run->launches.count);
    launch.kernel = name;
    launch.shape = *shape;
    launch.blocks = blocks;
    return gs_run_copy_launch(run, &launch, error);
}

gs_code gs_run_add_copy(gs_run *run, const gs_copy *from, gs_error *error) {
    gs_copy copy = *from;
    bool had_id = from->issue.id != NULL;
    bool is_owned =
        (!from->stream || own_string(run, &copy.stream)) && own_issue(run, &copy.issue) && (!had_id || copy.issue.id);
    if (!is_owned || !GS_RESERVE(&run->copies, 1) ||
        (had_id && gs_names_add(&run->ids, copy.issue.id, id_number(run->copies.count, true)) == SIZE_MAX))
        return gs_fail_memory(error);
    copy.before = run->launches.count;
    run->copies.data[run->copies.count++] = copy;
    return GS_OK;
}

gs_code gs_run_add_edge(gs_run *run, gs_issue *issue, gs_edge edge, gs_error *error) {
    if (run->edges.count >= UINT32_MAX || !GS_RESERVE(&run->edges, 1))
        return gs_fail_memory(error);
    if (!issue->after_count++)
        issue->after = (uint32_t)run->edges.count;
    run->edges.data[run->edges.count++] = edge;
    return GS_OK;
}

gs_code gs_run_add_range(gs_run *run, const char *name, int64_t from_ns, int64_t to_ns, gs_error *error) {
    const char *kept = gs_strings_add(&run->strings, name, strlen(name));
    bool done = kept && GS_PUSH(&run->ranges, ((gs_named_range){kept, from_ns, to_ns}));
    return done ? GS_OK : gs_fail_memory(error);
}

/* ---- copies of runs ---- */

static bool copy_string(char **to, const char *from) {
    *to = from ? strdup(from) : NULL;
    return *to || !from;
}

static void *copy_array(const void *from, size_t count, size_t size) {
    void *copy = malloc(count * size + 1);
    if (copy && count)
        memcpy(copy, from, count * size);
    return copy;
}

bool gs_seen_copy(gs_seen *to, const gs_seen *from, int64_t blocks) {
    *to = *from;
    to->placed.capacity = from->placed.count;
    to->start_ns.capacity = from->start_ns.count;
    to->end_ns.capacity = from->end_ns.count;
    to->placed.data = copy_array(from->placed.data, from->placed.count, sizeof *from->placed.data);
    to->start_ns.data = copy_array(from->start_ns.data, from->start_ns.count, sizeof *from->start_ns.data);
    to->end_ns.data = copy_array(from->end_ns.data, from->end_ns.count, sizeof *from->end_ns.data);
    to->warp_slots = (gs_slot_lists){0};
    to->brief.placed.capacity = from->brief.placed.count;
    to->brief.placed.data =
        copy_array(from->brief.placed.data, from->brief.placed.count, sizeof *from->brief.placed.data);
    bool copied = to->placed.data && to->start_ns.data && to->end_ns.data && to->brief.placed.data;
    if (from->has_warp_slots) {
        const gs_slot_lists *lists = &from->warp_slots;
        size_t slots = blocks ? lists->ends[blocks - 1] : 0;
        to->warp_slots.ends = copy_array(lists->ends, (size_t)blocks, sizeof *lists->ends);
        to->warp_slots.slots = copy_array(lists->slots, slots, sizeof *lists->slots);
        copied = copied && to->warp_slots.ends && to->warp_slots.slots;
    }
    if (!copied)
        gs_seen_clear(to);
    return copied;
}

gs_code gs_run_copy_event(gs_run *to, const gs_run *from, const gs_event *event, size_t launch, gs_error *error) {
    if (event->op == GS_LAUNCH) {
        gs_code code = gs_run_copy_launch(to, &from->launches.data[event->launch], error);
        if (code != GS_OK)
            return code;
    } else if (!gs_run_add_event(to, event->op, launch, error)) {
        return GS_E_MEMORY;
    }
    if (event->seen == &nothing)
        return GS_OK;
    gs_seen *copy = gs_event_see(&to->events.data[to->events.count - 1]);
    int64_t blocks = from->launches.data[event->launch].blocks;
    return copy && gs_seen_copy(copy, event->seen, blocks) ? GS_OK : gs_fail_memory(error);
}

static bool copy_origin(gs_origin *to, const gs_origin *from) {
    *to = *from;
    bool copied = copy_string(&to->program, from->program);
    copied = copy_string(&to->recorder, from->recorder) && copied;
    copied = copy_string(&to->gpu_name, from->gpu_name) && copied;
    return copy_string(&to->lacks, from->lacks) && copied;
}

static gs_code copy_copies(gs_run *to, const gs_run *from, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < from->copies.count && code == GS_OK; i++) {
        const gs_copy *copy = &from->copies.data[i];
        code = gs_run_add_copy(to, copy, error);
        if (code != GS_OK)
            break;
        gs_copy *added = &to->copies.data[i];
        added->before = copy->before;
        added->issue.after = copy->issue.after;
        added->issue.after_count = copy->issue.after_count;
    }
    return code;
}

static gs_code copy_ranges(gs_run *to, const gs_run *from, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < from->ranges.count && code == GS_OK; i++) {
        const gs_named_range *range = &from->ranges.data[i];
        code = gs_run_add_range(to, range->name, range->from_ns, range->to_ns, error);
    }
    return code;
}

bool gs_green_copy(gs_green_contexts *to, const gs_green_contexts *from) {
    if (!from->count)
        return true;
    size_t sms = (size_t)from->ends[from->count - 1];
    to->sms = copy_array(from->sms, sms, sizeof *to->sms);
    to->ends = copy_array(from->ends, (size_t)from->count, sizeof *to->ends);
    to->count = from->count;
    return to->sms && to->ends;
}

void gs_green_clear(gs_green_contexts *contexts) {
    free(contexts->sms);
    free(contexts->ends);
    *contexts = (gs_green_contexts){0};
}

bool gs_run_may_use(const gs_run *run, size_t launch, int32_t sm) {
    const gs_green_contexts *contexts = &run->green_contexts;
    const gs_launch_facts *facts = run->launches.data[launch].issue.facts;
    if (!facts || facts->green_context < 0 || facts->green_context >= contexts->count)
        return true;
    for (int32_t i = facts->green_context ? contexts->ends[facts->green_context - 1] : 0;
         i < contexts->ends[facts->green_context]; i++)
        if (contexts->sms[i] == sm)
            return true;
    return false;
}

gs_code gs_run_copy_about(gs_run *to, const gs_run *from, gs_error *error) {
    to->has_id = from->has_id;
    to->id = from->id;
    to->has_ended = from->has_ended;
    to->is_cut = from->is_cut;
    to->end_ns = from->end_ns;
    to->connections = from->connections;
    to->has_pace = from->has_pace;
    memcpy(to->pace_ns, from->pace_ns, sizeof to->pace_ns);
    to->lost = from->lost;
    to->is_of_several = from->is_of_several;
    to->waits_left_out = from->waits_left_out;
    bool copied = copy_string(&to->class_name, from->class_name) && copy_origin(&to->origin, &from->origin) &&
                  gs_green_copy(&to->green_contexts, &from->green_contexts);
    return copied ? GS_OK : gs_fail_memory(error);
}

gs_code gs_run_copy_rest(gs_run *to, const gs_run *from, gs_error *error) {
    gs_code code = gs_run_copy_about(to, from, error);
    if (code == GS_OK && !GS_RESERVE(&to->edges, from->edges.count))
        code = gs_fail_memory(error);
    if (code != GS_OK)
        return code;
    for (size_t i = 0; i < from->launches.count; i++) {
        to->launches.data[i].issue.after = from->launches.data[i].issue.after;
        to->launches.data[i].issue.after_count = from->launches.data[i].issue.after_count;
    }
    for (size_t i = 0; i < from->edges.count; i++)
        to->edges.data[to->edges.count++] = from->edges.data[i];
    code = copy_ranges(to, from, error);
    return code == GS_OK ? copy_copies(to, from, error) : code;
}

gs_run *gs_run_copy(const gs_run *run, gs_error *error) {
    gs_run *copy = gs_run_new(error);
    if (!copy)
        return NULL;
    bool copied = copy_string(&copy->gpu, run->gpu) && copy_string(&copy->assumed, run->assumed);
    gs_code code = copied ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; i < run->events.count && code == GS_OK; i++)
        code = gs_run_copy_event(copy, run, &run->events.data[i], run->events.data[i].launch, error);
    if (code == GS_OK)
        code = gs_run_copy_rest(copy, run, error);
    if (code == GS_OK)
        return copy;
    gs_run_free(copy);
    return NULL;
}

/* ---- errors ---- */

/* If the text of the run was kept, the place is a number in its list of events; otherwise it is a line. */
gs_code gs_run_fail_at(const gs_run *run, uint32_t place, gs_error *error, gs_code code, const char *format, ...) {
    char message[sizeof error->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (place && !run->is_followed) {
        gs_step root = {0}, events = {.up = &root, .key = "events"}, at = {.up = &events, .index = place - 1};
        gs_json_fail(&run->source, &at, false, error, "%s", message);
    } else
        gs_fail(error, code, "%s", message);
    if (!error)
        return code;
    error->code = code;
    if (place && run->is_followed && run->source.file) {
        snprintf(error->file, sizeof error->file, "%s", run->source.file);
        error->line = (long)place;
        error->column = 1;
    }
    return code;
}

gs_code gs_run_fail(const gs_run *run, size_t event, gs_error *error, gs_code code, const char *format, ...) {
    char message[sizeof error->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return gs_run_fail_at(run, run->events.data[event].place, error, code, "%s", message);
}

bool gs_run_is_timed(const gs_run *run) {
    for (size_t i = 0; i < run->launches.count; i++)
        if (run->launches.data[i].duration_ns)
            return true;
    return false;
}

int64_t gs_seen_started(const gs_seen *seen) {
    int64_t started = seen->brief.started;
    for (size_t i = 0; i < seen->placed.count; i++)
        started += seen->placed.data[i] != GS_WAIT;
    return started;
}

/* ---- the functions of the library for runs ---- */

const char *gs_run_gpu(const gs_run *run) {
    return run->gpu;
}

size_t gs_run_launches(const gs_run *run) {
    return run->launches.count;
}

const char *gs_run_kernel(const gs_run *run, size_t launch) {
    return launch < run->launches.count ? run->launches.data[launch].kernel : NULL;
}

int64_t gs_run_blocks(const gs_run *run, size_t launch) {
    return launch < run->launches.count ? run->launches.data[launch].blocks : 0;
}

static bool has_block(const gs_run *run, size_t launch, int64_t block) {
    return block >= 0 && block < gs_run_blocks(run, launch);
}

/* Blocks that started after the launch are in the latest observation; with times, all are in the launch. */
int gs_run_placed(const gs_run *run, size_t launch, int64_t block) {
    if (!has_block(run, launch, block))
        return GS_WAIT;
    const gs_launch *found = &run->launches.data[launch];
    int sm = gs_seen_sm(run->events.data[found->observed].seen, block);
    return sm != GS_WAIT ? sm : gs_seen_sm(run->events.data[found->event].seen, block);
}

const gs_seen *gs_launch_seen(const gs_run *run, size_t launch) {
    return run->events.data[run->launches.data[launch].event].seen;
}

int64_t gs_run_start_ns(const gs_run *run, size_t launch, int64_t block) {
    return has_block(run, launch, block) ? gs_seen_time(&gs_launch_seen(run, launch)->start_ns, block) : GS_NO_TIME;
}

int64_t gs_run_end_ns(const gs_run *run, size_t launch, int64_t block) {
    return has_block(run, launch, block) ? gs_seen_time(&gs_launch_seen(run, launch)->end_ns, block) : GS_NO_TIME;
}

void gs_run_copy_blocks(const gs_run *run, size_t launch, int32_t *sms, int64_t *start_ns, int64_t *end_ns) {
    for (int64_t block = 0; block < gs_run_blocks(run, launch); block++) {
        if (sms)
            sms[block] = gs_run_placed(run, launch, block);
        if (start_ns)
            start_ns[block] = gs_run_start_ns(run, launch, block);
        if (end_ns)
            end_ns[block] = gs_run_end_ns(run, launch, block);
    }
}

const char *gs_run_why(const gs_run *run, size_t launch) {
    return launch < run->launches.count ? run->events.data[run->launches.data[launch].event].why : NULL;
}
