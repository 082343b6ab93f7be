/*
 * record_line.c: a kernel, a copy, a memset or a range as a line of the recording (docs/formats.md, "A recorded
 * program").
 *
 * A small formatter writes directly into one buffer: a line takes less than a microsecond, and nothing is allocated
 * once the buffer has grown.
 */
#include "recorder.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- pieces ---- */

/* Space for `count` more bytes; NULL: out of memory. */
static char *reserve_bytes(gs_lines *lines, size_t count) {
    if (gs_grow((void **)&lines->data, &lines->capacity, lines->count + count, 1))
        return lines->data + lines->count;
    lines->failed = true;
    return NULL;
}

static void put_bytes(gs_lines *lines, const char *bytes, size_t count) {
    char *to = reserve_bytes(lines, count);
    if (!to)
        return;
    memcpy(to, bytes, count);
    lines->count += count;
}

static void put_text(gs_lines *lines, const char *text) {
    put_bytes(lines, text, strlen(text));
}

static void put_number(gs_lines *lines, int64_t number) {
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do
        digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        digits[--at] = '-';
    put_bytes(lines, digits + at, sizeof digits - at);
}

static void put_field(gs_lines *lines, const char *key, int64_t number) {
    put_text(lines, key);
    put_number(lines, number);
}

/* Microseconds with three decimals. */
static void put_time(gs_lines *lines, const char *key, const gs_record_style *style, int64_t at_ns) {
    int64_t since = at_ns - style->start_ns;
    uint64_t size = since < 0 ? 0 - (uint64_t)since : (uint64_t)since;
    char rest[4] = {'.', (char)('0' + size / 100 % 10), (char)('0' + size / 10 % 10), (char)('0' + size % 10)};
    put_text(lines, key);
    if (since < 0)
        put_text(lines, "-");
    put_number(lines, (int64_t)(size / 1000));
    put_bytes(lines, rest, sizeof rest);
}

/* The length of the multibyte UTF-8 character that begins here; 0: it is not one. */
static size_t utf8_length(const char *at) {
    const unsigned char *bytes = (const unsigned char *)at;
    size_t length = bytes[0] >= 0xc2 && bytes[0] < 0xe0   ? 2
                    : bytes[0] >= 0xe0 && bytes[0] < 0xf0 ? 3
                    : bytes[0] >= 0xf0 && bytes[0] < 0xf5 ? 4
                                                          : 0;
    for (size_t i = 1; i < length; i++)
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
    bool is_overlong = (bytes[0] == 0xe0 && bytes[1] < 0xa0) || (bytes[0] == 0xf0 && bytes[1] < 0x90);
    bool is_no_character = (bytes[0] == 0xed && bytes[1] > 0x9f) || (bytes[0] == 0xf4 && bytes[1] > 0x8f);
    return length && (is_overlong || is_no_character) ? 0 : length;
}

static bool is_plain(char byte) {
    return byte >= ' ' && byte < 127 && byte != '"' && byte != '\\';
}

/* Bytes that are not UTF-8 become question marks. */
static void put_string(gs_lines *lines, const char *key, const char *text) {
    put_text(lines, key);
    put_text(lines, "\"");
    for (const char *at = text; *at;) {
        size_t count = 0;
        while (is_plain(at[count]))
            count++;
        count += count ? 0 : utf8_length(at);
        put_bytes(lines, at, count);
        at += count;
        if (count || !*at)
            continue;
        if (*at == '"' || *at == '\\')
            put_text(lines, "\\");
        put_bytes(lines, *at == '"' || *at == '\\' ? at : "?", 1);
        at++;
    }
    put_text(lines, "\"");
}

static void put_three(gs_lines *lines, const char *key, const int32_t *numbers) {
    put_text(lines, key);
    for (int i = 0; i < 3; i++) {
        put_text(lines, i ? "," : "[");
        put_number(lines, numbers[i]);
    }
    put_text(lines, "]");
}

/* ---- dependencies of a launch ---- */

static void put_id(gs_lines *lines, bool *is_first, uint64_t id, gs_shape_when when) {
    put_text(lines, *is_first ? ",\"after\":[" : ",");
    *is_first = false;
    if (when != GS_SHAPE_AT_END)
        put_text(lines, "{\"id\":");
    put_number(lines, (int64_t)id);
    if (when != GS_SHAPE_AT_END)
        put_text(lines, when == GS_SHAPE_AT_START ? ",\"when\":\"start\"}" : ",\"when\":\"trigger\"}");
}

static void put_after(gs_lines *lines, const gs_host_launch *launch) {
    const gs_shape_node *node = launch->node;
    uint64_t first = node ? launch->id - (uint64_t)(node - launch->shape->nodes) : 0;
    bool is_first = true;
    for (uint32_t i = 0; node && i < node->after_count; i++) {
        uint32_t after = launch->shape->after[node->after + i];
        put_id(lines, &is_first, first + (after >> GS_SHAPE_WHEN_BITS),
               (gs_shape_when)(after & ((1 << GS_SHAPE_WHEN_BITS) - 1)));
    }
    if (launch->is_programmatic)
        put_id(lines, &is_first, launch->before, GS_SHAPE_AT_TRIGGER);
    for (uint32_t i = 0; i < launch->after_count; i++)
        put_id(lines, &is_first, launch->after[i], GS_SHAPE_AT_END);
    if (!is_first)
        put_text(lines, "]");
}

/* ---- lines ---- */

/* The common part of kernels, copies and memsets. */
struct common {
    uint64_t start, end, graph_node;
    uint32_t device, context, stream, graph;
};

/* Of a record of any kind: their layouts differ, the names of these members do not. */
#define COMMON(of)                                                                                                     \
    { (of)->start, (of)->end, (of)->graph_node, (of)->device, (of)->context, (of)->stream, (of)->graph }

static void put_begin(gs_lines *lines, const char *op, const gs_host_launch *launch) {
    put_string(lines, "{\"op\":", op);
    put_field(lines, ",\"id\":", (int64_t)launch->id);
}

/* From the stream to the times. A node of a graph is ordered by its dependencies, not by its stream. */
static void put_order(gs_lines *lines, const gs_record_style *style, const struct common *common,
                      const gs_host_launch *launch) {
    if (!common->graph_node)
        put_field(lines, ",\"stream\":", common->stream);
    put_time(lines, ",\"at_us\":", style, launch->at_ns);
    put_after(lines, launch);
    if (common->end) {
        put_time(lines, ",\"start_us\":", style, (int64_t)common->start);
        put_time(lines, ",\"end_us\":", style, (int64_t)common->end);
    }
}

/* Ends a line. A line that ran out of memory is removed. */
static void put_end(gs_lines *lines, const gs_record_style *style, const struct common *common, size_t began) {
    uint32_t parent = common->context < GS_MOST_CONTEXTS ? style->parents[common->context] : 0;
    put_field(lines, ",\"device\":", common->device);
    put_field(lines, ",\"context\":", parent ? parent : common->context);
    if (parent)
        put_field(lines, ",\"green_context\":", common->context);
    if (common->graph_node) {
        put_field(lines, ",\"graph\":", common->graph);
        put_field(lines, ",\"node\":", (int64_t)common->graph_node);
    }
    put_text(lines, "}\n");
    if (lines->failed)
        lines->count = began;
}

/* The requested carve-out; -1: none. The older way to request one is a preferred cache configuration. */
static int carveout_of(const cupti_kernel *kernel) {
    enum { REQUESTED = 15 };
    static const int preferred[] = {[CUPTI_PREFER_SHARED] = 100, [CUPTI_PREFER_L1] = 0, [CUPTI_PREFER_EQUAL] = 50};
    unsigned requested = kernel->cache_config & REQUESTED;
    if (kernel->has_carveout)
        return kernel->carveout_percent;
    return requested && requested < sizeof preferred / sizeof preferred[0] ? preferred[requested] : -1;
}

/* The kernel's needs on an SM. */
static void put_needs(gs_lines *lines, const cupti_kernel *kernel, const gs_host_launch *launch, int64_t cluster) {
    const int32_t *grid = kernel->grid, *block = kernel->block;
    put_string(lines, ",\"kernel\":", kernel->name ? kernel->name : "unknown");
    put_field(lines, ",\"blocks\":", (int64_t)grid[0] * grid[1] * grid[2]);
    put_field(lines, ",\"threads\":", (int64_t)block[0] * block[1] * block[2]);
    put_field(lines, ",\"registers\":", kernel->registers);
    put_field(lines, ",\"shared_bytes\":", (int64_t)kernel->static_shared_bytes + kernel->dynamic_shared_bytes);
    if (kernel->local_bytes)
        put_field(lines, ",\"local_bytes\":", kernel->local_bytes);
    if (cluster > 1)
        put_field(lines, ",\"cluster\":", cluster);
    if (launch->priority)
        put_field(lines, ",\"priority\":", launch->priority);
    if (carveout_of(kernel) >= 0)
        put_field(lines, ",\"carveout_percent\":", carveout_of(kernel));
}

void gs_line_kernel(gs_lines *lines, const gs_record_style *style, const cupti_kernel *kernel,
                    const gs_host_launch *launch) {
    size_t began = lines->count;
    const int32_t cluster[3] = {(int32_t)kernel->cluster[0], (int32_t)kernel->cluster[1], (int32_t)kernel->cluster[2]};
    int64_t cluster_blocks = (int64_t)cluster[0] * cluster[1] * cluster[2];
    const struct common common = COMMON(kernel);
    put_begin(lines, "launch", launch);
    put_needs(lines, kernel, launch, cluster_blocks);
    put_order(lines, style, &common, launch);
    put_three(lines, ",\"grid\":", kernel->grid);
    put_three(lines, ",\"block\":", kernel->block);
    if (cluster_blocks > 1)
        put_three(lines, ",\"cluster_shape\":", cluster);
    if (kernel->launch_type == CUPTI_COOPERATIVE || kernel->launch_type == CUPTI_COOPERATIVE_DEVICES)
        put_text(lines, ",\"cooperative\":true");
    if (kernel->static_shared_bytes)
        put_field(lines, ",\"static_shared_bytes\":", kernel->static_shared_bytes);
    /* For some kernels CUPTI reports a configuration that is too small for a block. */
    if (style->cupti_version &&
        kernel->shared_executed_bytes >= (uint64_t)kernel->static_shared_bytes + (uint64_t)kernel->dynamic_shared_bytes)
        put_field(lines, ",\"shared_config_bytes\":", kernel->shared_executed_bytes);
    put_end(lines, style, &common, began);
}

void gs_line_memcpy(gs_lines *lines, const gs_record_style *style, const cupti_memcpy *copy,
                    const gs_host_launch *launch) {
    static const char *const kinds[CUPTI_COPY_KINDS] = {
        NULL,
        "host_to_device",
        "device_to_host",
        "host_to_device",
        "device_to_host",
        "device_to_device",
        "device_to_device",
        "device_to_device",
        "device_to_device",
        "host_to_host",
        "peer_to_peer",
    };
    size_t began = lines->count;
    const struct common common = COMMON(copy);
    put_begin(lines, "copy", launch);
    if (copy->copy_kind < CUPTI_COPY_KINDS && kinds[copy->copy_kind])
        put_string(lines, ",\"kind\":", kinds[copy->copy_kind]);
    put_field(lines, ",\"bytes\":", (int64_t)copy->bytes);
    put_order(lines, style, &common, launch);
    put_end(lines, style, &common, began);
}

void gs_line_memset(gs_lines *lines, const gs_record_style *style, const cupti_memset *set,
                    const gs_host_launch *launch) {
    size_t began = lines->count;
    const struct common common = COMMON(set);
    put_begin(lines, "memset", launch);
    put_field(lines, ",\"bytes\":", (int64_t)set->bytes);
    put_order(lines, style, &common, launch);
    put_end(lines, style, &common, began);
}

/* A range may have begun before the recording, or before the clock was set back. */
void gs_line_range(gs_lines *lines, const gs_record_style *style, const char *name, int64_t from_ns, int64_t to_ns) {
    size_t began = lines->count;
    int64_t least_ns = from_ns > style->start_ns ? from_ns : style->start_ns;
    put_string(lines, "{\"op\":\"range\",\"name\":", name);
    put_time(lines, ",\"from_us\":", style, least_ns < to_ns ? least_ns : to_ns);
    put_time(lines, ",\"to_us\":", style, to_ns);
    put_text(lines, "}\n");
    if (lines->failed)
        lines->count = began;
}

/* A path as it may leave this machine: below the folder in which the program was started, or its last name. */
static const char *short_path(const char *path, const char *folder) {
    size_t length = folder ? strlen(folder) : 0, end = strlen(path);
    if (length && strncmp(path, folder, length) == 0 && path[length] == '/' && path[length + 1])
        return path + length + 1;
    while (end && path[end - 1] == '/')
        end--;
    while (end && path[end - 1] != '/')
        end--;
    return path + end;
}

/* The words of a command line, with spaces between them. Paths are the words, or what follows their first "=". */
static void put_program(gs_lines *lines, const char *folder, const char *program, size_t length) {
    char text[1024], word[1024];
    size_t count = 0;
    for (size_t at = 0; at < length; at += strlen(word) + 1) {
        size_t left = length - at < sizeof word ? length - at : sizeof word - 1;
        memcpy(word, program + at, left);
        word[left] = '\0';
        size_t before = word[0] == '/' ? 0 : strcspn(word, "=") + 1;
        bool has_path = before < strlen(word) && word[before] == '/';
        int written = snprintf(text + count, sizeof text - count, "%s%.*s%s", count ? " " : "",
                               (int)(has_path ? before : 0), word, has_path ? short_path(word + before, folder) : word);
        count = count + (size_t)written < sizeof text ? count + (size_t)written : sizeof text - 1;
    }
    if (count)
        put_string(lines, ",\"program\":", text);
}

/* Whether the driver's name of a GPU is the title of a description, possibly followed by the kind of board, with the
   same number of SMs. */
static bool is_title(const char *title, size_t length, uint32_t sms, const char *name, uint32_t found_sms) {
    static const char maker[] = "NVIDIA ";
    const size_t skipped = sizeof maker - 1;
    if (strncmp(name, maker, skipped) == 0)
        name += skipped;
    if (length > skipped && strncmp(title, maker, skipped) == 0) {
        title += skipped;
        length -= skipped;
    }
    return length && strncmp(name, title, length) == 0 &&
           (!name[length] || (strchr(" -", name[length]) && sms == found_sms));
}

/* Names the description of the GPU, if there is one. */
static void put_gpu(gs_lines *lines, const gs_record_style *style, uint32_t device) {
    for (const char *line = style->gpus; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char name[64];
        unsigned sms;
        int title = 0;
        if (sscanf(line, "%63s %u %n", name, &sms, &title) == 2 && title &&
            is_title(line + title, strcspn(line + title, "\n"), sms, style->device_names[device],
                     style->device_sms[device])) {
            put_string(lines, ",\"gpu\":", name);
            return;
        }
    }
}

void gs_line_header(gs_lines *lines, const gs_record_style *style, uint32_t device, const char *program,
                    size_t program_length) {
    size_t began = lines->count;
    char recorder[64];
    if (style->cupti_version)
        snprintf(recorder, sizeof recorder, "gridsmith trace (CUPTI %u)", style->cupti_version);
    else
        snprintf(recorder, sizeof recorder, "gridsmith trace (in front of the driver)");
    put_text(lines, "{\"schema\":\"gridsmith.run/1\"");
    if (device < GS_MOST_DEVICES)
        put_gpu(lines, style, device);
    put_program(lines, style->folder, program, program_length);
    put_string(lines, ",\"recorder\":", recorder);
    if (device < GS_MOST_DEVICES && style->device_names[device][0])
        put_string(lines, ",\"gpu_name\":", style->device_names[device]);
    put_field(lines, ",\"device\":", device);
    put_field(lines, ",\"process\":", getpid());
    put_field(lines, ",\"start_unix_ns\":", style->start_ns);
    if (!style->cupti_version)
        put_text(lines, ",\"lacks\":[\"start_us\",\"end_us\",\"shared_config_bytes\",\"green_context\"]");
    put_text(lines, ",\"events\":\"follow\"}\n");
    if (lines->failed)
        lines->count = began;
}

void gs_line_end(gs_lines *lines, const gs_record_style *style, int64_t now_ns, uint64_t lost) {
    size_t began = lines->count;
    put_time(lines, "{\"op\":\"end\",\"at_us\":", style, now_ns);
    if (lost)
        put_field(lines, ",\"lost\":", (int64_t)lost);
    put_text(lines, "}\n");
    if (lines->failed)
        lines->count = began;
}
