/*
 * zoo_task.c: applications of 'gridsmith zoo load' and 'gridsmith plan --play': kernels of the zoo, networks, and the
 * tasks and networks of a file. Each becomes a task of the zoo.
 *
 * A file is read as for a simulation (tasks.c), with a table that has the kernels of the zoo, and those of files that
 * it names. The blocks and the work of a launch become a size of its kernel (sizes.c), so that each block does what a
 * block of the plan does; kernels of files have the launch that their file says.
 */
#include "sharing/decide/decide.h"
#include "zoo_verbs.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_REPEAT = 1 << 24, MOST_SIZES = 64 };

void gs_zoo_applications_free(gs_zoo_applications *list) {
    for (size_t i = 0; i < list->count; i++) {
        gs_zoo_task *task = &list->data[i].task;
        if (task->steps.count)
            gs_zoo_network_close(task->steps.data[0].kernel); /* a network is alone in its task */
        for (size_t k = 0; k < list->data[i].files.count; k++)
            gs_zoo_file_close(list->data[i].files.data[k]);
        free(list->data[i].files.data);
        gs_zoo_task_free(task);
        free(list->data[i].text);
    }
    free(list->data);
    *list = (gs_zoo_applications){.data = NULL};
}

/* `text` is what the application is made of. NULL: out of memory. */
static gs_zoo_application *add_application(gs_zoo_applications *list, const char *name, const char *text,
                                           bool is_of_file, gs_error *error) {
    bool is_reserved = GS_RESERVE(list, 1);
    gs_zoo_application made = {.task = {.name = strdup(name)}, .text = strdup(text), .is_of_file = is_of_file};
    if (is_reserved && made.task.name && made.text) {
        list->data[list->count] = made;
        return &list->data[list->count++];
    }
    free(made.task.name);
    free(made.text);
    gs_fail_memory(error);
    return NULL;
}

/* ---- of a name ---- */

/* A kernel of the zoo or a network, at a size. A network that is not added is closed. */
static gs_code add_kernel(gs_zoo_application *app, const gs_zoo_kernel *kernel, const char *size, bool is_load,
                          gs_error *error) {
    const gs_zoo_size *found = size      ? gs_zoo_size_find(kernel, size)
                               : is_load ? gs_zoo_size_for_loads(kernel)
                                         : gs_zoo_size_find(kernel, "large");
    gs_code code =
        found ? GS_OK : gs_fail(error, GS_E_USAGE, "%s has no size \"%.40s\"", kernel->name, size ? size : "large");
    if (code == GS_OK && !gs_zoo_task_add(&app->task, kernel, found))
        code = gs_fail_memory(error);
    if (code != GS_OK)
        gs_zoo_network_close(kernel);
    return code;
}

static gs_code fail_unknown(const char *word, const char *name, gs_error *error) {
    gs_similar similar = {.word = name};
    for (size_t i = 0; gs_zoo_at(i); i++)
        gs_similar_try(&similar, gs_zoo_at(i)->name);
    for (size_t i = 0; gs_network_at(i); i++)
        gs_similar_try(&similar, gs_network_at(i));
    return gs_fail(error, GS_E_USAGE, "\"%.60s\" is neither a kernel of the zoo, a network, nor a file%s", word,
                   gs_similar_words(&similar));
}

static gs_code read_repeat(const char *word, const char *colon, uint32_t *repeat, gs_error *error) {
    char *end = NULL;
    long read = *colon ? strtol(colon + 1, &end, 10) : 0;
    if (*colon && (*end || read < 1 || read > MOST_REPEAT))
        return gs_fail(error, GS_E_USAGE, "load takes NAME or NAME:REPEAT, not \"%.60s\"", word);
    *repeat = (uint32_t)read;
    return GS_OK;
}

bool gs_zoo_cut_blas(char *word) {
    static const char blas[] = "/cublas";
    size_t length = strcspn(word, ":"), ending = sizeof blas - 1;
    if (length <= ending || strncmp(word + length - ending, blas, ending) != 0)
        return false;
    memmove(word + length - ending, word + length, strlen(word + length) + 1);
    return true;
}

static gs_code add_name(gs_zoo_applications *list, const char *name, const char *word, const char *size,
                        gs_error *error) {
    gs_zoo_application *app = add_application(list, name, word, false, error);
    if (!app)
        return error->code;
    gs_code code = read_repeat(word, word + strcspn(word, ":"), &app->task.repeat, error);
    const gs_zoo_kernel *kernel = gs_zoo_find(name);
    if (code == GS_OK && !kernel && !(kernel = gs_zoo_network_open(name, error)))
        code = error->code;
    return code == GS_OK ? add_kernel(app, kernel, size, true, error) : code;
}

/* ---- of a file ---- */

static gs_code add_to_table(gs_plan_table *table, const char *name, gs_error *error) {
    if (gs_plan_table_find(table, name) >= 0)
        return GS_OK;
    gs_table_kernel kernel = {.name = strdup(name)}; /* blocks 0: those of the size */
    if (kernel.name && GS_RESERVE(&table->kernels, 1)) {
        table->kernels.data[table->kernels.count++] = kernel;
        return GS_OK;
    }
    free(kernel.name);
    return gs_fail_memory(error);
}

/* The kernels of the zoo, and those of files of a task. */
static gs_code make_table(gs_plan_table *table, const gs_json *json, gs_error *error) {
    gs_step root = gs_step_root(json), kernels = gs_step_key(&root, "kernels");
    gs_code code = GS_OK;
    *table = (gs_plan_table){.title = "the zoo"};
    for (size_t i = 0; gs_zoo_at(i) && code == GS_OK; i++)
        code = add_to_table(table, gs_zoo_at(i)->name, error);
    for (size_t i = 0; i < json_array_size(kernels.value) && code == GS_OK; i++) {
        const json_t *launch = json_array_get(kernels.value, i);
        const char *name = json_string_value(json_object_get(launch, "kernel"));
        if (name && json_object_get(launch, "file"))
            code = add_to_table(table, name, error);
    }
    return code;
}

/* Makes a path of a launch, which is relative to the folder of the file of tasks, absolute: a task may be played from a
   copy. False: out of memory. */
static bool set_path(json_t *launch, const char *key, const char *folder, const char *path) {
    gs_text whole = {0};
    gs_text_add(&whole, "%s%s%s", path[0] == '/' ? "" : folder, path[0] == '/' ? "" : "/", path);
    bool is_set = !whole.failed && json_object_set_new(launch, key, json_string(whole.data)) == 0;
    gs_text_free(&whole);
    return is_set;
}

/* FILE.json of FILE.ptx, FILE.cu or FILE.ptx.gz. */
static void name_launch(const char *file, char *into, size_t size) {
    size_t length = strlen(file);
    if (length > 3 && strcmp(file + length - 3, ".gz") == 0)
        length -= 3;
    for (size_t at = length; at > 0 && file[at - 1] != '/'; at--)
        if (file[at - 1] == '.') {
            length = at - 1;
            break;
        }
    snprintf(into, size, "%.*s.json", (int)length, file);
}

/* The paths of a task that was read: they are strings, and a launch file belongs to a file. */
static gs_code resolve_paths(gs_json *json, const char *folder, gs_error *error) {
    gs_step root = gs_step_root(json), kernels = gs_step_key(&root, "kernels");
    for (size_t i = 0; i < json_array_size(kernels.value); i++) {
        json_t *launch = json_array_get(kernels.value, i);
        const char *file = json_string_value(json_object_get(launch, "file")),
                   *outline = json_string_value(json_object_get(launch, "launch"));
        char beside[PATH_MAX];
        if (!file)
            continue;
        name_launch(file, beside, sizeof beside);
        if (!set_path(launch, "launch", folder, outline ? outline : beside) || !set_path(launch, "file", folder, file))
            return gs_fail_memory(error);
    }
    return GS_OK;
}

/* The kernel of a file, opened once for all launches; the application keeps it. NULL: an error. */
static const gs_zoo_kernel *open_file(gs_zoo_application *app, const json_t *launch, gs_error *error) {
    const char *file = json_string_value(json_object_get(launch, "file")),
               *name = json_string_value(json_object_get(launch, "kernel")),
               *outline = json_string_value(json_object_get(launch, "launch"));
    for (size_t i = 0; i < app->files.count; i++)
        if (gs_zoo_file_is(app->files.data[i], file, name, outline))
            return app->files.data[i];
    if (!GS_RESERVE(&app->files, 1)) {
        gs_fail_memory(error);
        return NULL;
    }
    const gs_zoo_kernel *made = gs_zoo_file_open(file, name, outline, error);
    if (made)
        app->files.data[app->files.count++] = made;
    return made;
}

static bool add_step(gs_zoo_task *task, const gs_zoo_kernel *kernel, const gs_listed_task *listed,
                     const gs_listed_launch *launch, const gs_zoo_size *size) {
    bool is_added = gs_zoo_task_add(task, kernel, size);
    for (size_t i = 0; i < launch->after_count && is_added; i++)
        is_added = gs_zoo_task_wait(task, listed->after.data[launch->after + i]);
    return is_added;
}

/* The kernel of a launch: of its file, or of the zoo. NULL: an error. */
static const gs_zoo_kernel *find_kernel(gs_zoo_application *app, const gs_listed_launch *launch, const json_t *json,
                                        gs_error *error) {
    if (json_object_get(json, "file"))
        return open_file(app, json, error);
    const gs_zoo_kernel *kernel = gs_zoo_at((size_t)launch->kernel);
    if (!kernel) /* another launch has a file with such a kernel */
        gs_fail(error, GS_E_USAGE, "the zoo has no kernel \"%.60s\"",
                json_string_value(json_object_get(json, "kernel")));
    return kernel;
}

/* `blocks` and `work` of a launch as a size of its kernel. */
static gs_code fit_size(const gs_zoo_kernel *kernel, const gs_listed_launch *launch, const char *size, bool is_file,
                        gs_zoo_size *fitted, gs_error *error) {
    const gs_zoo_size *whole = is_file ? &kernel->sizes[0] : gs_zoo_size_find(kernel, size);
    if (!whole)
        return gs_fail(error, GS_E_USAGE, "%s has no size \"%.40s\"", kernel->name, size);
    if (!is_file)
        return gs_zoo_size_fit(kernel, whole, launch->blocks, launch->work, fitted, error);
    *fitted = *whole;
    int64_t blocks = gs_zoo_file_blocks(kernel);
    return (launch->blocks && launch->blocks != blocks) || launch->work != 1
               ? gs_fail(error, GS_E_USAGE, "%s has the %lld blocks of its launch, and their work", kernel->name,
                         (long long)blocks)
               : GS_OK;
}

static gs_code add_launch(gs_zoo_application *app, const gs_json *json, const gs_listed_task *listed, size_t number,
                          const char *size, gs_error *error) {
    const gs_listed_launch *launch = &listed->launches.data[number];
    gs_step root = gs_step_root(json), kernels = gs_step_key(&root, "kernels");
    gs_step at = gs_step_index(&kernels, number);
    bool is_file = json_object_get(at.value, "file") != NULL;
    gs_error problem;
    gs_zoo_size fitted;
    const gs_zoo_kernel *kernel = find_kernel(app, launch, at.value, &problem);
    gs_code code = kernel ? fit_size(kernel, launch, size, is_file, &fitted, &problem) : problem.code;
    if (code == GS_OK)
        return add_step(&app->task, kernel, listed, launch, &fitted) ? GS_OK : gs_fail_memory(error);
    if (code != GS_E_USAGE)
        return *error = problem, code;
    return gs_json_fail(json, &at, false, error, "task \"%.60s\", launch %zu: %s", listed->name, number,
                        problem.message);
}

/* Each size of each kernel has memory of its own. */
static size_t count_sizes(const gs_zoo_task *task) {
    size_t found[MOST_SIZES], count = 0;
    for (size_t i = 0, at; i < task->steps.count && count <= MOST_SIZES; i++) {
        const gs_zoo_step *step = &task->steps.data[i];
        for (at = 0; at < count; at++) {
            const gs_zoo_step *other = &task->steps.data[found[at]];
            if (other->kernel == step->kernel && memcmp(other->size.n, step->size.n, sizeof step->size.n) == 0)
                break;
        }
        if (at == count && count++ < MOST_SIZES)
            found[at] = i;
    }
    return count;
}

static gs_code fill_task(gs_zoo_application *app, const gs_json *json, const gs_listed_task *listed, const char *size,
                         gs_error *error) {
    gs_step root = gs_step_root(json), repeat = gs_step_key(&root, "repeat");
    gs_code code = GS_OK;
    if (listed->repeat > MOST_REPEAT)
        return gs_json_fail(json, &repeat, false, error, "at most %d repetitions can be played", MOST_REPEAT);
    app->task.repeat = (uint32_t)listed->repeat;
    app->at_ns = (int64_t)(listed->at_us * 1000);
    for (size_t i = 0; i < listed->launches.count && code == GS_OK; i++)
        code = add_launch(app, json, listed, i, size, error);
    if (code == GS_OK && count_sizes(&app->task) > MOST_SIZES)
        return gs_json_fail(json, &root, false, error, "task \"%.60s\" has launches of more than %d sizes",
                            listed->name, MOST_SIZES);
    return code;
}

static gs_code add_task(gs_zoo_applications *list, gs_json *json, const char *folder, const char *size,
                        gs_error *error) {
    gs_plan_table table;
    gs_task_list read = {0};
    gs_network_options options = gs_network_defaults();
    gs_code code = make_table(&table, json, error);
    if (code == GS_OK)
        code = gs_task_list_add_json(&read, json, &options, &table, error);
    if (code == GS_OK)
        code = resolve_paths(json, folder, error);
    char *text = code == GS_OK ? json_dumps(json->root, 0) : NULL;
    gs_zoo_application *app = text ? add_application(list, read.data[0].name, text, true, error) : NULL;
    free(text);
    if (code == GS_OK && !text)
        code = gs_fail_memory(error);
    if (app)
        code = fill_task(app, json, &read.data[0], size, error);
    else if (code == GS_OK)
        code = error->code;
    gs_task_list_clear(&read);
    gs_plan_table_clear(&table);
    return code;
}

static gs_code add_network(gs_zoo_applications *list, const gs_json *json, const char *size, gs_error *error) {
    gs_network network;
    gs_code code = gs_network_read(json, &network, error);
    if (code != GS_OK)
        return code;
    gs_zoo_application *app = add_application(list, network.name, json->text, true, error);
    if (app)
        app->task.repeat = (uint32_t)gs_min(network.repeat, MOST_REPEAT);
    const gs_zoo_kernel *kernel = app ? gs_zoo_network_of(&network, error) : NULL;
    if (kernel)
        return add_kernel(app, kernel, size, false, error);
    gs_network_free(&network);
    return error->code;
}

/* The folder of a file, as an absolute path. */
static gs_code find_folder(const char *path, char *folder, gs_error *error) {
    const char *slash = strrchr(path, '/');
    char given[PATH_MAX];
    snprintf(given, sizeof given, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    return realpath(given, folder) ? GS_OK : gs_fail_system(error, "find", given);
}

static gs_code add_file(gs_zoo_applications *list, const char *path, const char *size, gs_error *error) {
    char folder[PATH_MAX];
    gs_input *input = gs_input_open(path, error);
    gs_code code = input ? find_folder(path, folder, error) : error->code;
    for (bool is_over = false; code == GS_OK && !is_over;) {
        gs_json json;
        code = gs_json_next(input, &json, error);
        is_over = code != GS_OK || !json.root;
        if (!is_over)
            code = gs_network_is(&json) ? add_network(list, &json, size ? size : "large", error)
                                        : add_task(list, &json, folder, size ? size : "large", error);
        gs_json_free(&json);
    }
    gs_input_close(input);
    return code;
}

/* ---- of a word ---- */

gs_code gs_zoo_applications_add(gs_zoo_applications *list, const char *word, const char *size, gs_error *error) {
    char plain[PATH_MAX], name[64];
    snprintf(plain, sizeof plain, "%s", word);
    bool uses_blas = gs_zoo_cut_blas(plain);
    size_t before = list->count;
    snprintf(name, sizeof name, "%.*s", (int)gs_min((int64_t)strcspn(plain, ":"), (int64_t)sizeof name - 1), plain);
    gs_code code = gs_zoo_find(name) || gs_network_exists(name) ? add_name(list, name, word, size, error)
                   : access(plain, F_OK) == 0                   ? add_file(list, plain, size, error)
                                                                : fail_unknown(word, name, error);
    for (size_t i = before; i < list->count; i++)
        list->data[i].uses_blas = uses_blas;
    return code;
}
