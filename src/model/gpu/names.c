/*
 * names.c: which GPU a name means, and its description.
 *
 * The build compiles the files of gpus/ into the library (gs_builtin_gpus), so their names work without any files. The
 * GPUs of siblings.c are built in, too: each is one of those with other SMs. A path reads a description from a file.
 */
#include "builtin.h"
#include "gpu.h"
#include "siblings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char separators[] = " -_";

/* What follows `prefix` in `name`, or NULL if `name` begins otherwise. Case, spaces, dashes and underscores do not
   matter. */
static const char *after_name(const char *name, const char *prefix) {
    for (;; name++, prefix++) {
        prefix += strspn(prefix, separators);
        if (!*prefix)
            return name;
        name += strspn(name, separators);
        if (tolower((unsigned char)*name) != tolower((unsigned char)*prefix))
            return NULL;
    }
}

static bool is_same_name(const char *a, const char *b) {
    const char *rest = after_name(a, b);
    return rest && !rest[strspn(rest, separators)];
}

static const char *without_maker(const char *name) {
    const char *rest = after_name(name, "NVIDIA");
    return rest ? rest + strspn(rest, separators) : name;
}

bool gs_gpu_is_called(const gs_gpu *gpu, const char *driver_name, int32_t sms) {
    const char *title = without_maker(gpu->title ? gpu->title : ""), *bare = without_maker(driver_name);
    size_t length = strlen(title);
    return length && strncasecmp(bare, title, length) == 0 &&
           (!bare[length] || (strchr(" -", bare[length]) && gpu->sms == sms));
}

/* Whether a word of a driver's name tells boards with the same SMs apart: "NVL", "SXM5", "PCIE", "80GB", "HBM3". */
static bool is_board_word(const char *word, size_t length) {
    static const char *const names[] = {"NVL", "PCIe", "HBM2", "HBM2e", "HBM3", "HBM3e"};
    size_t digits = strspn(word, "0123456789");
    for (size_t i = 0; i < GS_COUNT(names); i++)
        if (strlen(names[i]) == length && strncasecmp(word, names[i], length) == 0)
            return true;
    return (length == 4 && strncasecmp(word, "SXM", 3) == 0 && isdigit((unsigned char)word[3])) ||
           (digits && length == digits + 2 && strncasecmp(word + digits, "GB", 2) == 0);
}

static bool has_only_board_words(const char *rest) {
    for (size_t length; *(rest += strspn(rest, separators)); rest += length)
        if (length = strcspn(rest, separators), !is_board_word(rest, length))
            return false;
    return true;
}

static bool is_path(const char *name) {
    size_t length = strlen(name);
    return strchr(name, '/') || strcmp(name, "-") == 0 || (length > 5 && strcmp(name + length - 5, ".json") == 0);
}

const char *gs_gpu_builtin(size_t index) {
    size_t files = gs_builtin_gpus.count;
    return index < files                      ? gs_builtin_gpus.data[index].name
           : index - files < gs_sibling_count ? gs_siblings[index - files].name
                                              : NULL;
}

static gs_gpu *read_file(const gs_embedded_file *file, gs_error *error) {
    gs_input *input = gs_input_memory(file->name, file->bytes, file->count, error);
    gs_gpu *gpu = input ? gs_gpu_read(input, error) : NULL;
    gs_input_close(input);
    return gpu;
}

/* Replaces a string of a description; false: no memory. */
static bool set_words(char **words, const char *format, const char *name) {
    gs_text text = {0};
    gs_text_add(&text, format, name);
    free(*words);
    *words = text.data;
    return !text.failed;
}

static gs_gpu *make_sibling(const gs_sibling *sibling, gs_error *error) {
    gs_gpu *like = read_file(gs_embedded_find(&gs_builtin_gpus, sibling->like), error);
    gs_gpu *gpu = !like                       ? NULL
                  : like->sms == sibling->sms ? gs_gpu_copy(like, error)
                                              : gs_gpu_part(like, sibling->sms, error);
    gs_gpu_free(like);
    if (!gpu)
        return NULL;
    free(gpu->uuid);
    gpu->uuid = NULL;
    if (set_words(&gpu->name, "%s", sibling->name) && set_words(&gpu->title, "%s", sibling->title) &&
        set_words(&gpu->compute_capability, "%s", sibling->compute_capability) &&
        set_words(&gpu->assumed, "limits from the specification, mechanisms assumed%s", "") &&
        set_words(&gpu->source,
                  "SMs: NVIDIA's specification of the board; limits and mechanisms: as described for %s; nothing was "
                  "measured on this GPU",
                  sibling->like))
        return gpu;
    gs_gpu_free(gpu);
    gs_fail_memory(error);
    return NULL;
}

static gs_gpu *open_builtin(size_t index, gs_error *error) {
    size_t files = gs_builtin_gpus.count;
    return index < files ? read_file(&gs_builtin_gpus.data[index], error)
                         : make_sibling(&gs_siblings[index - files], error);
}

enum { NONE = -1 };

static ptrdiff_t find_by_short_name(const char *name) {
    const char *known;
    for (size_t i = 0; (known = gs_gpu_builtin(i)); i++)
        if (is_same_name(known, name))
            return (ptrdiff_t)i;
    return NONE;
}

/* The length of the title, if `name` is the title, as the driver reports it, or the title and words for the board.
   0: it is another name. */
static size_t match_title(size_t index, const char *name) {
    gs_gpu *gpu = open_builtin(index, NULL);
    const char *title = without_maker(gpu && gpu->title ? gpu->title : "");
    const char *rest = *title ? after_name(name, title) : NULL;
    size_t length = rest && (!*rest || strchr(separators, *rest)) && has_only_board_words(rest) ? strlen(title) : 0;
    gs_gpu_free(gpu);
    return length;
}

/* Of two titles that match, such as "H100" and "H100 PCIe", the longer one is meant. */
static ptrdiff_t find_by_title(const char *name) {
    ptrdiff_t best = NONE;
    size_t best_length = 0;
    for (size_t i = 0; gs_gpu_builtin(i); i++) {
        size_t length = match_title(i, name);
        if (length > best_length) {
            best = (ptrdiff_t)i;
            best_length = length;
        }
    }
    return best;
}

static ptrdiff_t find_builtin(const char *name) {
    const char *bare = without_maker(name);
    ptrdiff_t found = find_by_short_name(bare);
    return found != NONE || is_path(name) ? found : find_by_title(bare);
}

const char *gs_gpu_builtin_name(const char *name) {
    ptrdiff_t found = find_builtin(name);
    return found == NONE ? NULL : gs_gpu_builtin((size_t)found);
}

static void refuse_name(const char *name, gs_error *error) {
    gs_similar similar = {.word = without_maker(name)};
    for (size_t i = 0; gs_gpu_builtin(i); i++)
        gs_similar_try(&similar, gs_gpu_builtin(i));
    gs_fail(error, GS_E_USAGE,
            "no GPU is called \"%.60s\"%s; 'gridsmith gpus' lists the known ones; or give the path of a description",
            name, gs_similar_words(&similar));
}

gs_gpu *gs_gpu_open(const char *name, gs_error *error) {
    ptrdiff_t builtin = find_builtin(name);
    if (builtin != NONE)
        return open_builtin((size_t)builtin, error);
    gs_input *input = is_path(name) ? gs_input_open(name, error) : NULL;
    if (!input && !is_path(name))
        refuse_name(name, error);
    gs_gpu *gpu = input ? gs_gpu_read(input, error) : NULL;
    if (input && !gpu)
        gs_error_name_file(error, gs_input_name(name));
    gs_input_close(input);
    return gpu;
}

/* Of "H100" and "H100 NVL", the longer title is meant. */
gs_gpu *gs_gpu_open_called(const char *driver_name, int32_t sms) {
    gs_gpu *best = NULL;
    for (size_t i = 0; gs_gpu_builtin(i); i++) {
        gs_gpu *gpu = open_builtin(i, NULL);
        bool is_better =
            gpu && gs_gpu_is_called(gpu, driver_name, sms) && (!best || strlen(gpu->title) > strlen(best->title));
        gs_gpu_free(is_better ? best : gpu);
        best = is_better ? gpu : best;
    }
    return best;
}
