/*
 * short_names.c: names of kernels for people, short, and different if the kernels are.
 *
 * A C++ kernel is shown by its identifier, without return type, namespaces and parameters. Where several kernels share
 * an identifier, as the instances of a template do, the template arguments in which they differ follow: as few as tell
 * them apart, chosen one after the other, each the one that tells most of them apart. Arguments are written without
 * namespaces, and functions in them without parameters. What is still the same gets a number: "copy#2".
 *
 *   void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int,
 * ...) is vectorized_elementwise_kernel<FillFunctor<float>>, if another kernel has another functor.
 */
#include "base.h"

#include <ctype.h>
#include <stdlib.h>

enum { MOST_ARGUMENTS = 32 };

/* A name in parts. The texts belong to the table. */
struct gs_short_name {
    const char *name;
    char *identifier;
    char *arguments[MOST_ARGUMENTS]; /* of the template; NULL after the last */
    char *brief;
    size_t number; /* the order in which it was added */
    size_t class;  /* within its group: equal so far */
};

/* ---- a name in parts ---- */

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

/* The end of the bracket at `at`, just behind it; NULL: it has none. An arrow is no bracket. */
static const char *skip_brackets(const char *at, const char *end) {
    int depth = 0;
    for (; at < end; at++) {
        depth += strchr("<({[", *at) != NULL;
        depth -= strchr(">)}]", *at) != NULL && !(*at == '>' && at[-1] == '-');
        if (!depth)
            return at + 1;
    }
    return NULL;
}

/* The parts of "void a::b<1, 2>(int)": where the identifier and the arguments are. False: it is not of that form. */
struct parts {
    const char *identifier, *identifier_end;
    const char *arguments, *arguments_end; /* without the brackets */
};

static bool find_parts(const char *name, struct parts *parts) {
    const char *end = name + strlen(name);
    *parts = (struct parts){.identifier = name, .identifier_end = end};
    for (const char *at = name; at < end;) {
        bool is_bracket = strchr("<({[", *at) != NULL;
        const char *after = is_bracket ? skip_brackets(at, end) : at + 1;
        if (!after || (!is_bracket && !is_word(*at) && !strchr(" :~*&", *at)))
            return false; /* no name of C++ */
        if (*at == ' ' || (*at == ':' && at > name && at[-1] == ':')) {
            *parts = (struct parts){.identifier = at + 1, .identifier_end = end};
        } else if (*at == '<') {
            parts->identifier_end = at;
            parts->arguments = at + 1;
            parts->arguments_end = after - 1;
        } else if (*at == '(' && at > parts->identifier && strncmp(at, "(anonymous", 10) != 0) {
            if (!parts->arguments)
                parts->identifier_end = at;
            break;
        }
        at = after;
    }
    return parts->identifier < parts->identifier_end && is_word(*parts->identifier);
}

/* Whether a namespace begins here: words and "::", and then the name of something. */
static size_t namespace_length(const char *at, const char *end) {
    static const char anonymous[] = "(anonymous namespace)::";
    if ((size_t)(end - at) > sizeof anonymous && memcmp(at, anonymous, sizeof anonymous - 1) == 0)
        return sizeof anonymous - 1;
    const char *word = at;
    while (word < end && is_word(*word))
        word++;
    bool is_scope =
        word > at && end - word > 2 && word[0] == ':' && word[1] == ':' && (is_word(word[2]) || word[2] == '(');
    return is_scope ? (size_t)(word + 2 - at) : 0;
}

/* Whether a text has this word here; its length, or 0. */
static size_t has_text(const char *at, const char *end, const char *text) {
    size_t length = strlen(text);
    return (size_t)(end - at) >= length && memcmp(at, text, length) == 0 ? length : 0;
}

/* Writes an argument without what does not tell: namespaces, the parameters of functions, the calls of lambdas. */
static void put_argument(gs_text *text, const char *at, const char *end) {
    bool is_inside = false; /* within a word */
    while (at < end && *at == ' ')
        at++;
    while (at < end && end[-1] == ' ')
        end--;
    while (at < end) {
        size_t skipped = is_inside ? 0 : namespace_length(at, end);
        skipped = skipped ? skipped : has_text(at, end, "::operator()() const");
        skipped = skipped ? skipped : has_text(at, end, " const");
        skipped = skipped ? skipped : (*at == ' ' && at + 1 < end && strchr(">*&", at[1]));
        const char *after = *at == '(' && is_inside ? skip_brackets(at, end) : NULL;
        if (skipped || after) {
            at = skipped ? at + skipped : after;
            continue;
        }
        is_inside = is_word(*at);
        gs_text_put(text, at++, 1);
    }
}

/* ---- names of a table ---- */

static char *keep_text(gs_short_names *names, gs_text *text) {
    char *kept = text->failed ? NULL : gs_strings_add(&names->texts, text->data ? text->data : "", text->count);
    gs_text_clear(text);
    return kept;
}

static bool split_arguments(gs_short_names *names, struct gs_short_name *name, const struct parts *parts) {
    gs_text text = {0};
    size_t count = 0;
    bool done = true;
    const char *from = parts->arguments;
    for (const char *at = from; at <= parts->arguments_end && done && count + 1 < MOST_ARGUMENTS;) {
        bool is_end = at == parts->arguments_end;
        if (is_end || *at == ',') {
            put_argument(&text, from, at);
            done = (name->arguments[count++] = keep_text(names, &text)) != NULL;
            from = at + 1;
        }
        const char *after = !is_end && strchr("<({[", *at) ? skip_brackets(at, parts->arguments_end) : NULL;
        at = after ? after : at + 1;
    }
    gs_text_free(&text);
    return done;
}

static bool split_name(gs_short_names *names, struct gs_short_name *name) {
    struct parts parts;
    char *readable = gs_demangle(name->name, 0);
    if (!readable)
        return false;
    gs_make_printable(readable);
    bool has_parts = find_parts(readable, &parts);
    const char *from = has_parts ? parts.identifier : readable;
    size_t length = has_parts ? (size_t)(parts.identifier_end - from) : strlen(readable);
    name->identifier = gs_strings_add(&names->texts, from, length);
    bool done = name->identifier && (!has_parts || !parts.arguments || split_arguments(names, name, &parts));
    free(readable);
    return done;
}

gs_code gs_short_names_add(gs_short_names *names, const char *name, gs_error *error) {
    size_t number = gs_names_add(&names->by_name, name, names->count);
    if (number == SIZE_MAX)
        return gs_fail_memory(error);
    if (number != names->count)
        return GS_OK;
    struct gs_short_name added = {.name = name, .number = names->count};
    bool done = split_name(names, &added) && GS_PUSH(names, added);
    return done ? GS_OK : gs_fail_memory(error);
}

/* ---- telling them apart ---- */

static int compare_identifiers(const void *first, const void *second) {
    const struct gs_short_name *a = *(struct gs_short_name *const *)first, *b = *(struct gs_short_name *const *)second;
    int order = strcmp(a->identifier, b->identifier);
    return order ? order : GS_COMPARE(a->number, b->number);
}

static const char *argument_of(const struct gs_short_name *name, size_t column) {
    return name->arguments[column] ? name->arguments[column] : "";
}

/* Gives names that are equal in their class and in one more argument the same new class. Returns how many classes there
   are; texts of arguments are at the same address if they are equal. */
static size_t refine_classes(struct gs_short_name *const *group, size_t count, size_t column, size_t *classes) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        size_t like = 0;
        while (like < i && !(group[like]->class == group[i]->class &&
                             strcmp(argument_of(group[like], column), argument_of(group[i], column)) == 0))
            like++;
        classes[i] = like == i ? found++ : classes[like];
    }
    return found;
}

/* Chooses the argument that tells most names apart; MOST_ARGUMENTS: none does. */
static size_t choose_column(struct gs_short_name *const *group, size_t count, size_t classes, size_t *scratch) {
    size_t best = MOST_ARGUMENTS, most = classes;
    for (size_t column = 0; column + 1 < MOST_ARGUMENTS; column++) {
        bool is_used = false;
        for (size_t i = 0; i < count; i++)
            is_used = is_used || group[i]->arguments[column];
        size_t found = is_used ? refine_classes(group, count, column, scratch) : 0;
        if (found > most) {
            most = found;
            best = column;
        }
    }
    return best;
}

static bool write_briefs(gs_short_names *names, struct gs_short_name *const *group, size_t count,
                         const bool *is_shown) {
    gs_text text = {0};
    bool done = true;
    for (size_t i = 0; i < count && done; i++) {
        const char *before = "<";
        gs_text_add(&text, "%s", group[i]->identifier);
        for (size_t column = 0; column + 1 < MOST_ARGUMENTS; column++)
            if (is_shown[column] && group[i]->arguments[column]) {
                gs_text_add(&text, "%s%s", before, group[i]->arguments[column]);
                before = ", ";
            }
        gs_text_add(&text, *before == '<' ? "" : ">");
        done = (group[i]->brief = keep_text(names, &text)) != NULL;
    }
    gs_text_free(&text);
    return done;
}

/* Names such as those of CUTLASS's kernels, whose first argument says which kernel it is. */
static bool is_generic(const char *identifier) {
    static const char *const names[] = {"Kernel", "Kernel2", "kernel", "device_kernel"};
    for (size_t i = 0; i < GS_COUNT(names); i++)
        if (strcmp(identifier, names[i]) == 0)
            return true;
    return false;
}

/* Many instances of one template would take time that grows with their square: then all arguments are shown. */
static bool tell_apart(gs_short_names *names, struct gs_short_name *const *group, size_t count) {
    enum { MOST_COMPARED = 1000 };
    bool is_shown[MOST_ARGUMENTS] = {false};
    size_t *scratch = malloc((count + 1) * sizeof *scratch), classes = 1, column;
    if (!scratch)
        return false;
    for (size_t i = 0; i < MOST_ARGUMENTS && count > MOST_COMPARED; i++)
        is_shown[i] = true;
    is_shown[0] = is_shown[0] || is_generic(group[0]->identifier);
    while (count <= MOST_COMPARED && classes < count &&
           (column = choose_column(group, count, classes, scratch)) != MOST_ARGUMENTS) {
        classes = refine_classes(group, count, column, scratch);
        for (size_t i = 0; i < count; i++)
            group[i]->class = scratch[i];
        is_shown[column] = true;
    }
    free(scratch);
    return write_briefs(names, group, count, is_shown);
}

/* ---- long names, and names that are still the same ---- */

/* The beginning and the end of a long name. It is not cut within a letter of UTF-8. */
static void put_cut(gs_text *text, const char *brief, size_t most) {
    size_t length = strlen(brief);
    if (length <= most) {
        gs_text_add(text, "%s", brief);
        return;
    }
    size_t head = (most - 3) * 2 / 3, tail = length - (most - 3 - head);
    while (head && ((unsigned char)brief[head] & 0xC0) == 0x80)
        head--;
    while (tail < length && ((unsigned char)brief[tail] & 0xC0) == 0x80)
        tail++;
    gs_text_add(text, "%.*s...%s", (int)head, brief, brief + tail);
}

/* Cuts a name and adds a number to it, if another one has it already. */
static bool finish_brief(gs_short_names *names, struct gs_short_name *name, gs_names *taken) {
    enum { FEW = 100 }; /* the numbers to try; after these, one that probably no other name has */
    gs_text text = {0};
    char number[24] = "";
    char *kept = NULL;
    for (size_t i = 2;; i++) {
        put_cut(&text, name->brief, GS_SHORT_NAME - strlen(number));
        gs_text_add(&text, "%s", number);
        kept = keep_text(names, &text);
        size_t holder = kept ? gs_names_add(taken, kept, name->number) : SIZE_MAX;
        if (holder == SIZE_MAX || holder == name->number)
            break;
        snprintf(number, sizeof number, "#%zu", i < FEW ? i : name->number + i);
    }
    gs_text_free(&text);
    name->brief = kept;
    return kept;
}

gs_code gs_short_names_make(gs_short_names *names, gs_error *error) {
    struct gs_short_name **sorted = malloc((names->count + 1) * sizeof *sorted);
    gs_names taken = {0};
    bool done = sorted != NULL;
    for (size_t i = 0; done && i < names->count; i++)
        sorted[i] = &names->data[i];
    if (done)
        qsort(sorted, names->count, sizeof *sorted, compare_identifiers);
    for (size_t from = 0, to; done && from < names->count; from = to) {
        for (to = from + 1; to < names->count && strcmp(sorted[from]->identifier, sorted[to]->identifier) == 0; to++)
            ;
        done = tell_apart(names, sorted + from, to - from);
    }
    for (size_t i = 0; done && i < names->count; i++)
        done = finish_brief(names, &names->data[i], &taken);
    gs_names_free(&taken);
    free(sorted);
    return done ? GS_OK : gs_fail_memory(error);
}

const char *gs_short_name(const gs_short_names *names, const char *name) {
    size_t number = gs_names_find(&names->by_name, name);
    return number == SIZE_MAX ? name : names->data[number].brief;
}

const char *gs_long_name(const gs_short_names *names, const char *brief) {
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->data[i].brief, brief) == 0)
            return names->data[i].name;
    return brief;
}

void gs_short_names_clear(gs_short_names *names) {
    gs_names_free(&names->by_name);
    gs_strings_free(&names->texts);
    free(names->data);
    *names = (gs_short_names){0};
}
