/*
 * kernel_list.c: the kernels named by a user: of the zoo, of files, of lists (gridsmith.plan-kernels/1), and of
 * recorded programs (gridsmith.run/1), whose kernels are black boxes.
 */
#include "measure.h"
#include "model/run/run.h"

#include <stdlib.h>

/* ---- adding ---- */

static gs_kernel_source *add_source(gs_named_kernels *list, const char *name, gs_error *error) {
    if (list->count == GS_SEARCH_KERNELS) {
        gs_fail(error, GS_E_USAGE, "a plan may have at most %d kernels", GS_SEARCH_KERNELS);
        return NULL;
    }
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->data[i].name, name) == 0) {
            gs_fail(error, GS_E_USAGE, "duplicate kernel \"%.80s\"", name);
            return NULL;
        }
    if (strlen(name) >= GS_SEARCH_NAME || !*name) {
        gs_fail(error, GS_E_USAGE, "the name of a kernel must have 1 to %d bytes, not \"%.40s\"", GS_SEARCH_NAME - 1,
                name);
        return NULL;
    }
    if (!GS_RESERVE(list, 1)) {
        gs_fail_memory(error);
        return NULL;
    }
    gs_kernel_source *source = &list->data[list->count++];
    *source = (gs_kernel_source){.is_elastic = list->is_elastic};
    snprintf(source->name, sizeof source->name, "%s", name);
    gs_make_printable(source->name);
    memcpy(source->given.name, source->name, sizeof source->given.name);
    return source;
}

static gs_code add_zoo(gs_named_kernels *list, const char *name, const char *kernel, const char *size,
                       gs_error *error) {
    if (!gs_zoo_find(kernel) || !gs_zoo_size_find(gs_zoo_find(kernel), size))
        return gs_fail(error, GS_E_USAGE, "the zoo has no kernel \"%.40s\" of size \"%.20s\"", kernel, size);
    gs_kernel_source *source = add_source(list, name, error);
    if (!source)
        return error->code;
    source->kind = GS_SOURCE_ZOO;
    snprintf(source->zoo, sizeof source->zoo, "%s", kernel);
    snprintf(source->size, sizeof source->size, "%s", size);
    return GS_OK;
}

static gs_code add_file(gs_named_kernels *list, const char *name, const char *file, const char *kernel,
                        const char *launch, gs_error *error) {
    gs_kernel_source *source = add_source(list, name, error);
    if (!source)
        return error->code;
    source->kind = GS_SOURCE_FILE;
    size_t lengths[] = {strlen(file), strlen(kernel), strlen(launch)};
    if (lengths[0] >= sizeof source->file || lengths[1] >= sizeof source->kernel || lengths[2] >= sizeof source->launch)
        return gs_fail(error, GS_E_USAGE, "the paths of \"%.40s\" are too long", name);
    memcpy(source->file, file, lengths[0]);
    memcpy(source->kernel, kernel, lengths[1]);
    memcpy(source->launch, launch, lengths[2]);
    return GS_OK;
}

static gs_code add_black_box(gs_named_kernels *list, const char *name, const gs_shape *shape, int64_t blocks, double us,
                             gs_error *error) {
    gs_kernel_source *source = add_source(list, name, error);
    if (!source)
        return error->code;
    source->kind = GS_SOURCE_BLACK_BOX;
    source->given.blocks = blocks;
    source->given.forms[0] = *shape;
    source->given.has_form[0] = true;
    source->given.is_black_box = true;
    source->given.keeps_registers = true;
    source->given.known_us = us;
    return GS_OK;
}

/* ---- lists ---- */

static gs_code read_real(const gs_json *json, const gs_step *at, const char *key, double least, double most,
                         double *value, gs_error *error) {
    gs_step step = gs_step_key(at, key);
    if (!step.value)
        return GS_OK;
    double number = json_number_value(step.value);
    if (!json_is_number(step.value) || !(number >= least) || !(number <= most))
        return gs_json_fail(json, &step, false, error, "\"%s\" must be a number from %g to %g", key, least, most);
    *value = number;
    return GS_OK;
}

static const char *text_of(const gs_step *at, const char *key) {
    return json_string_value(gs_step_key(at, key).value);
}

/* Up to `most` numbers from 0. */
static gs_code read_numbers(const gs_json *json, const gs_step *at, const char *key, size_t most, double largest,
                            double *numbers, gs_error *error) {
    gs_step list = gs_step_key(at, key);
    size_t count = json_array_size(list.value);
    bool is_right = !list.value || (json_is_array(list.value) && count <= most);
    for (size_t i = 0; i < count && is_right; i++) {
        json_t *number = json_array_get(list.value, i);
        numbers[i] = json_number_value(number);
        is_right = json_is_number(number) && numbers[i] >= 0 && numbers[i] <= largest;
    }
    return is_right ? GS_OK
                    : gs_json_fail(json, &list, false, error, "\"%s\" must be a list of up to %zu numbers from 0 to %g",
                                   key, most, largest);
}

struct model_flags {
    int32_t never_ends, is_changed;
};

static const gs_field model_fields[] = {
    {"workers", GS_FIELD_OTHER, true, 0, 0, 0},
    {"surplus", GS_FIELD_OTHER, false, 0, 0, 0},
    {"spills", GS_FIELD_OTHER, false, 0, 0, 0},
    {"units", GS_FIELD_OTHER, false, 0, 0, 0},
    {"halves", GS_FIELD_OTHER, false, 0, 0, 0},
    {"never_ends", GS_FIELD_BOOL, false, offsetof(struct model_flags, never_ends), 0, 0},
    {"changes", GS_FIELD_BOOL, false, offsetof(struct model_flags, is_changed), 0, 0},
};

/* The forms of a model kernel, by what a half and a quarter of its threads cost. */
static void set_forms(gs_kernel_source *source, double workers, const double *halves) {
    gs_pair_search_kernel *given = &source->given;
    for (int i = 0; i < GS_SEARCH_FORMS; i++) {
        double cost = i ? halves[i - 1] : 1;
        given->has_form[i] = i == 0 || cost >= 1;
        given->forms[i] = given->forms[0];
        given->forms[i].threads >>= i;
        given->forms[i].shared_bytes >>= i;
        source->model.cost[i] = cost;
        source->model.needed[i] = workers * (1 << i);
        source->model.registers[i] = given->forms[0].registers;
    }
}

/* The fields of a model kernel: "workers" per SM, and optionally "surplus", "spills", "units", and "halves", the costs
   of both. */
static gs_code read_model(const gs_json *json, const gs_step *at, gs_kernel_source *source, gs_error *error) {
    gs_step model = gs_step_key(at, "model");
    gs_model_kernel *kernel = &source->model;
    struct model_flags flags = {0};
    double workers = 0, halves[GS_SEARCH_FORMS - 1] = {0};
    *kernel = (gs_model_kernel){.us = source->given.known_us, .surplus = 1};
    gs_code code = gs_json_object(json, &model, model_fields, GS_COUNT(model_fields), &flags, error);
    if (code == GS_OK)
        code = read_real(json, &model, "workers", 1, GS_MAX_BLOCKS_PER_SM, &workers, error);
    if (code == GS_OK)
        code = read_real(json, &model, "surplus", 1, 1000, &kernel->surplus, error);
    if (code == GS_OK)
        code = read_real(json, &model, "spills", 0, 100, &kernel->spills, error);
    if (code == GS_OK)
        code = read_numbers(json, &model, "units", GS_MODEL_UNITS, 1, kernel->units, error);
    if (code == GS_OK)
        code = read_numbers(json, &model, "halves", GS_COUNT(halves), 1000, halves, error);
    if (code == GS_OK && kernel->us <= 0)
        code = gs_json_fail(json, &model, false, error, "a kernel of the model needs \"alone_us\"");
    set_forms(source, workers, halves);
    source->given.is_black_box = false;
    source->given.keeps_registers = false;
    source->kind = GS_SOURCE_MODEL;
    kernel->never_ends = flags.never_ends;
    kernel->is_changed = flags.is_changed;
    return code;
}

struct shape_fields {
    int64_t threads, registers, shared_bytes, local_bytes, blocks;
};

static gs_code read_shape(const gs_json *json, const gs_step *at, gs_named_kernels *list, gs_error *error) {
#define FIELD(name, member, from, to)                                                                                  \
    { .key = name, .type = GS_FIELD_INT64, .offset = offsetof(struct shape_fields, member), .least = from, .most = to }
    static const gs_field fields[] = {
        FIELD("block_threads", threads, 1, 1024),        FIELD("registers", registers, 1, 255),
        FIELD("shared_bytes", shared_bytes, 0, 1 << 20), FIELD("local_bytes", local_bytes, 0, 1 << 20),
        FIELD("blocks", blocks, 1, INT64_MAX / 2),       {.key = "name", .type = GS_FIELD_OTHER, .required = true},
        {.key = "alone_us", .type = GS_FIELD_OTHER},     {.key = "model", .type = GS_FIELD_OTHER}};
#undef FIELD
    struct shape_fields read = {.threads = 0, .registers = 0, .blocks = 1};
    const char *name = text_of(at, "name");
    double us = 0;
    gs_code code = gs_json_object(json, at, fields, GS_COUNT(fields), &read, error);
    if (code == GS_OK)
        code = read_real(json, at, "alone_us", 0, 1e12, &us, error);
    if (code == GS_OK && (!name || !read.threads || !read.registers))
        code = gs_json_fail(json, at, false, error,
                            "a kernel needs \"zoo\", \"file\", or \"name\" with \"block_threads\" and \"registers\"");
    if (code != GS_OK)
        return code;
    gs_shape shape = gs_shape_of((int32_t)read.threads, (int32_t)read.registers, read.shared_bytes);
    shape.local_bytes = read.local_bytes;
    code = add_black_box(list, name, &shape, read.blocks, us, error);
    return code == GS_OK && gs_step_key(at, "model").value ? read_model(json, at, &list->data[list->count - 1], error)
                                                           : code;
}

/* A path in a list is relative to the folder of the list. */
static void resolve_path(const char *list_path, const char *path, char *into, size_t size) {
    const char *slash = strrchr(list_path, '/');
    if (path[0] == '/' || !slash)
        snprintf(into, size, "%s", path);
    else
        snprintf(into, size, "%.*s%s", (int)(slash - list_path + 1), list_path, path);
}

/* A kernel of the zoo or of a file. */
struct entry {
    char *name, *zoo, *size, *file, *kernel, *launch;
};

static const gs_field zoo_fields[] = {
    {"zoo", GS_FIELD_NAME, true, offsetof(struct entry, zoo), 0, 0},
    {"size", GS_FIELD_NAME, false, offsetof(struct entry, size), 0, 0},
    {"name", GS_FIELD_NAME, false, offsetof(struct entry, name), 0, 0},
};

static const gs_field file_fields[] = {
    {"file", GS_FIELD_NAME, true, offsetof(struct entry, file), 0, 0},
    {"kernel", GS_FIELD_NAME, false, offsetof(struct entry, kernel), 0, 0},
    {"launch", GS_FIELD_NAME, false, offsetof(struct entry, launch), 0, 0},
    {"name", GS_FIELD_NAME, false, offsetof(struct entry, name), 0, 0},
};

static gs_code add_entry_of_file(const gs_json *json, const gs_step *at, const char *path, const struct entry *entry,
                                 gs_named_kernels *list, gs_error *error) {
    char file_path[2 * GS_SOURCE_PATH], launch_path[2 * GS_SOURCE_PATH];
    if (!entry->kernel || !entry->launch)
        return gs_json_fail(json, at, false, error, "a kernel of a file needs \"kernel\" and \"launch\"");
    resolve_path(path, entry->file, file_path, sizeof file_path);
    resolve_path(path, entry->launch, launch_path, sizeof launch_path);
    return add_file(list, entry->name ? entry->name : entry->kernel, file_path, entry->kernel, launch_path, error);
}

static gs_code read_entry(const gs_json *json, const gs_step *at, const char *path, gs_named_kernels *list,
                          gs_error *error) {
    bool is_zoo = gs_step_key(at, "zoo").value, is_file = !is_zoo && gs_step_key(at, "file").value;
    struct entry entry = {.name = NULL};
    if (!is_zoo && !is_file)
        return read_shape(json, at, list, error);
    gs_code code = gs_json_object(json, at, is_zoo ? zoo_fields : file_fields,
                                  is_zoo ? GS_COUNT(zoo_fields) : GS_COUNT(file_fields), &entry, error);
    if (code == GS_OK)
        code = is_zoo ? add_zoo(list, entry.name ? entry.name : entry.zoo, entry.zoo,
                                entry.size ? entry.size : list->size, error)
                      : add_entry_of_file(json, at, path, &entry, list, error);
    char *const texts[] = {entry.name, entry.zoo, entry.size, entry.file, entry.kernel, entry.launch};
    for (size_t i = 0; i < GS_COUNT(texts); i++)
        free(texts[i]);
    return code;
}

static gs_code read_list(const gs_json *json, const char *path, gs_named_kernels *list, gs_error *error) {
    gs_step root = gs_step_root(json), kernels = gs_step_key(&root, "kernels");
    gs_code code = gs_json_schema(json, &root, "gridsmith.plan-kernels/1", error);
    if (code == GS_OK && !json_is_array(kernels.value))
        code = gs_json_fail(json, kernels.value ? &kernels : &root, false, error, "\"kernels\" must be a list");
    for (size_t i = 0; code == GS_OK && i < json_array_size(kernels.value); i++) {
        gs_step at = gs_step_index(&kernels, i);
        code = json_is_object(at.value) ? read_entry(json, &at, path, list, error)
                                        : gs_json_fail(json, &at, false, error, "must be an object");
    }
    return code;
}

/* ---- recorded programs ---- */

enum { RECORDED_NAME = GS_SEARCH_NAME - 12 }; /* a number may follow */

static void name_recorded(const char *recorded, char kernel[RECORDED_NAME]) {
    snprintf(kernel, RECORDED_NAME, "%s", recorded);
    gs_make_printable(kernel);
}

/* Launches of a kernel with the same shape are one black box; the name gets a number if there are several shapes. */
bool gs_named_kernel_is(const char *name, const char *recorded) {
    char kernel[RECORDED_NAME];
    name_recorded(recorded, kernel);
    size_t length = strlen(kernel);
    return strncmp(name, kernel, length) == 0 && (!name[length] || name[length] == '#');
}

static gs_code add_launch(gs_named_kernels *list, size_t first, const gs_launch *launch, gs_error *error) {
    char kernel[RECORDED_NAME], name[GS_SEARCH_NAME];
    for (size_t i = first; i < list->count; i++)
        if (gs_named_kernel_is(list->data[i].name, launch->kernel) &&
            gs_shape_equal(&list->data[i].given.forms[0], &launch->shape))
            return GS_OK;
    name_recorded(launch->kernel, kernel);
    snprintf(name, sizeof name, "%s", kernel);
    for (int number = 2;; number++) {
        bool is_taken = false;
        for (size_t i = 0; i < list->count; i++)
            is_taken = is_taken || strcmp(list->data[i].name, name) == 0;
        if (!is_taken)
            break;
        snprintf(name, sizeof name, "%.*s#%d", RECORDED_NAME - 1, kernel, number);
    }
    bool is_timed = launch->issue.start_ns != GS_NO_TIME && launch->issue.end_ns != GS_NO_TIME;
    double us = is_timed ? (double)(launch->issue.end_ns - launch->issue.start_ns) / 1e3 : 0;
    return add_black_box(list, name, &launch->shape, launch->blocks, us, error);
}

static gs_code add_launches(gs_named_kernels *list, size_t first, const gs_run *run, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; code == GS_OK && i < run->launches.count; i++)
        code = add_launch(list, first, &run->launches.data[i], error);
    return code;
}

/* All runs of a file: a recorded program has one for each GPU. */
static gs_code read_runs(gs_runs *runs, const char *path, gs_named_kernels *list, gs_error *error) {
    gs_error at_end = {.code = GS_OK};
    size_t first = list->count;
    gs_code code = GS_OK;
    for (gs_run *run; code == GS_OK && (run = gs_runs_next(runs, &at_end));) {
        code = add_launches(list, first, run, error);
        gs_run_free(run);
    }
    if (code == GS_OK && at_end.code != GS_OK) {
        *error = at_end;
        return at_end.code;
    }
    if (code == GS_OK && list->count == first)
        code = gs_fail(error, GS_E_FORMAT, "%s: the recording has no launches", gs_input_name(path));
    return code;
}

gs_code gs_named_kernels_read(gs_named_kernels *list, gs_input *input, const char *path, gs_error *error) {
    gs_json json = {0};
    gs_code code = gs_json_next(input, &json, error);
    if (code == GS_OK && !json.root)
        code = gs_input_fail(input, error, GS_E_FORMAT, "the file is empty");
    const char *schema = json_string_value(json_object_get(json.root, "schema"));
    if (code == GS_OK && schema && strcmp(schema, "gridsmith.run/1") == 0) {
        gs_runs *runs = gs_runs_after(input, &json, error);
        code = runs ? read_runs(runs, path, list, error) : error->code;
        gs_runs_close(runs);
        return code;
    }
    if (code == GS_OK)
        code = read_list(&json, path, list, error);
    if (code == GS_OK)
        code = gs_json_end(input, error);
    gs_json_free(&json);
    gs_input_close(input);
    return code;
}

static gs_code add_json(gs_named_kernels *list, const char *path, gs_error *error) {
    gs_input *input = gs_input_open(path, error);
    return input ? gs_named_kernels_read(list, input, path, error) : error->code;
}

/* ---- words ---- */

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

/* The length of FILE, where a word is FILE.cu or FILE.ptx, also compressed (FILE.ptx.gz), and maybe :KERNEL; else 0. */
static size_t source_stem(const char *word) {
    static const char *const endings[] = {".cu", ".ptx", ".cu.gz", ".ptx.gz"};
    const char *colon = strrchr(word, ':');
    size_t length = colon ? (size_t)(colon - word) : strlen(word);
    for (size_t i = 0; i < GS_COUNT(endings); i++) {
        size_t tail = strlen(endings[i]);
        if (length > tail && strncmp(word + length - tail, endings[i], tail) == 0)
            return length - tail;
    }
    return 0;
}

/* FILE.cu:KERNEL, with its launch in FILE.json. */
static gs_code add_source_file(gs_named_kernels *list, const char *word, gs_error *error) {
    const char *colon = strrchr(word, ':');
    char file[GS_SOURCE_PATH], launch[GS_SOURCE_PATH + 8];
    size_t length = colon ? (size_t)(colon - word) : strlen(word);
    if (length >= sizeof file)
        return gs_fail(error, GS_E_USAGE, "the path \"%.40s...\" is too long", word);
    memcpy(file, word, length);
    file[length] = '\0';
    const char *end = file + source_stem(word), *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    char kernel[GS_JOB_NAME];
    snprintf(kernel, sizeof kernel, "%.*s", colon ? (int)strlen(colon + 1) : (int)(end - base),
             colon ? colon + 1 : base);
    snprintf(launch, sizeof launch, "%.*s.json", (int)(end - file), file);
    return add_file(list, kernel, file, kernel, launch, error);
}

gs_code gs_named_kernels_add(gs_named_kernels *list, const char *word, gs_error *error) {
    gs_similar similar = {.word = word};
    if (gs_zoo_find(word))
        return add_zoo(list, word, word, list->size, error);
    if (source_stem(word))
        return add_source_file(list, word, error);
    if (ends_with(word, ".json") || ends_with(word, ".jsonl") || ends_with(word, ".gz") || strcmp(word, "-") == 0)
        return add_json(list, word, error);
    for (size_t i = 0; gs_zoo_at(i); i++)
        gs_similar_try(&similar, gs_zoo_at(i)->name);
    return gs_fail(error, GS_E_USAGE,
                   "\"%.60s\" is neither a kernel of the zoo%s nor a file that ends in .cu, .ptx or .json", word,
                   gs_similar_words(&similar));
}

void gs_named_kernels_free(gs_named_kernels *list) {
    free(list->data);
    *list = (gs_named_kernels){.size = NULL};
}
