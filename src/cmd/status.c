/*
 * status.c: gridsmith status: the state of a daemon. top.c prints the same table repeatedly.
 */
#include "status.h"
#include "cmd.h"
#include "sharing/client/client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *socket;
    bool json, limits;
};

static const gs_option option_table[] = {
    GS_SOCKET_OPTION(struct options, socket),
    GS_FLAG(struct options, "json", json, "write gridsmith.status/1"),
    GS_FLAG(struct options, "limits", limits, "show how much of each limit the clients use"),
};

static double number_at(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static const char *word_at(const json_t *object, const char *key) {
    const char *found = json_string_value(json_object_get(object, key));
    return found ? found : "";
}

enum { MOST_COLUMNS = 30 };

struct cell {
    char text[4 * MOST_COLUMNS + 1];
};

/* The cell of a table: the first `columns` characters of a text, which is valid UTF-8, padded with spaces. printf would
   count bytes. */
static struct cell cell_of(const char *text, int columns) {
    struct cell cell;
    size_t at = 0;
    for (int i = 0; i < columns; i++) {
        cell.text[at++] = *text ? *text++ : ' ';
        while (((unsigned char)*text & 0xc0) == 0x80)
            cell.text[at++] = *text++;
    }
    cell.text[at] = '\0';
    return cell;
}

/* The same client or program in the status before, or NULL. A process may have several of the same name: the time of
   opening distinguishes them. */
static const json_t *find_same(const json_t *before, const char *list, const json_t *client) {
    size_t i;
    json_t *old;
    json_array_foreach(json_object_get(before, list), i, old) {
        if (json_equal(json_object_get(old, "process"), json_object_get(client, "process")) &&
            json_equal(json_object_get(old, "opened_ns"), json_object_get(client, "opened_ns")))
            return old;
    }
    return NULL;
}

static void put_kernels(gs_text *text, const json_t *client) {
    size_t i;
    json_t *kernel;
    json_array_foreach(json_object_get(client, "kernels"), i, kernel) {
        gs_text_add(text, "    stream %-2.0f %s %-6s", number_at(kernel, "stream"),
                    cell_of(word_at(kernel, "kernel"), 28).text, word_at(kernel, "state"));
        if (strcmp(word_at(kernel, "form"), "confined") == 0)
            gs_text_add(text, " %3.0f SMs: %s; %.0f of %.0f blocks", number_at(kernel, "sms"), word_at(kernel, "on"),
                        number_at(kernel, "done"), number_at(kernel, "blocks"));
        else if (strcmp(word_at(kernel, "form"), "original") == 0)
            gs_text_add(text, " whole; %.0f blocks", number_at(kernel, "blocks"));
        gs_text_add(text, "\n");
    }
}

/* ---- limits ---- */

static double percent_used(const json_t *limit) {
    double most = number_at(limit, "limit");
    return most > 0 ? 100 * number_at(limit, "used") / most : 0;
}

/* The limits that a client has nearly reached: " (allocations 97%)". It may have to wait. */
static void put_near_limits(gs_text *text, const json_t *client) {
    enum { NEAR_PERCENT = 90 };
    const char *key;
    json_t *limit;
    json_object_foreach(json_object_get(client, "limits"), key, limit) {
        if (percent_used(limit) >= NEAR_PERCENT && strcmp(key, "clients") != 0)
            gs_text_add(text, " (%s %.0f%%)", key, percent_used(limit));
    }
}

/* A line for each limit in use. */
static void put_account(gs_text *text, const char *who, const json_t *limits) {
    const char *key;
    json_t *limit;
    json_object_foreach((json_t *)(uintptr_t)limits, key, limit) {
        if (number_at(limit, "used") > 0)
            gs_text_add(text, "%s %-14s %16.0f %16.0f %5.0f%%\n", cell_of(who, 30).text, key, number_at(limit, "used"),
                        number_at(limit, "limit"), percent_used(limit));
    }
}

static void put_accounts(gs_text *text, const json_t *list, const char *kind) {
    size_t i;
    json_t *account;
    char who[60];
    json_array_foreach(list, i, account) {
        snprintf(who, sizeof who, "%s %.0f", kind, number_at(account, kind));
        put_account(text, who, json_object_get(account, "limits"));
    }
}

static void put_limits(gs_text *text, const json_t *status) {
    const json_t *limits = json_object_get(status, "limits");
    size_t i;
    json_t *client;
    char who[120];
    gs_text_add(text, "%-30s %-14s %16s %16s %6s\n", "who", "what", "used", "limit", "");
    json_array_foreach(json_object_get(status, "clients"), i, client) {
        snprintf(who, sizeof who, "%.0f %s", number_at(client, "process"), word_at(client, "name"));
        put_account(text, who, json_object_get(client, "limits"));
    }
    put_accounts(text, json_object_get(limits, "processes"), "process");
    put_accounts(text, json_object_get(limits, "families"), "family");
    put_accounts(text, json_object_get(limits, "users"), "user");
    put_account(text, "all", json_object_get(limits, "all"));
}

/* ---- clients ---- */

/* The time of its rates: since the status before, or since it has connected, if it was not there. */
static double seconds_of(const json_t *status, const json_t *before, const json_t *client, const json_t *old) {
    double since_ns = old ? number_at(before, "time_ns") : number_at(client, "opened_ns");
    double seconds = (number_at(status, "time_ns") - since_ns) / 1e9;
    return seconds > 1e-6 ? seconds : 1e-6;
}

/* Rates are since `before`; NULL: since it has connected. */
static void put_client(gs_text *text, const json_t *client, const json_t *status, const json_t *before) {
    const json_t *old = find_same(before, "clients", client);
    double seconds = seconds_of(status, before, client, old);
    double launches = number_at(client, "launches") - number_at(old, "launches");
    double served = number_at(client, "served_sm_ns") - number_at(old, "served_sm_ns");
    double copied = number_at(client, "copied_bytes") - number_at(old, "copied_bytes");
    gs_text_add(text, "%8.0f %s %6.0f %4.0f %10.1f %11.1f %8.1f %8.1f  %s", number_at(client, "process"),
                cell_of(word_at(client, "name"), 20).text, number_at(client, "weight"), number_at(client, "priority"),
                number_at(client, "memory_bytes") / 1048576, launches / seconds, served / 1e9 / seconds,
                copied / 1048576 / seconds, word_at(client, "state"));
    put_near_limits(text, client);
    gs_text_add(text, "\n");
    put_kernels(text, client);
}

/* ---- programs of `gridsmith run` ---- */

const json_t *gs_status_choice(const json_t *status, const char *name) {
    size_t i;
    json_t *command;
    json_array_foreach(json_object_get(status, "commands"), i, command) {
        if (strcmp(word_at(command, "command"), name) == 0)
            return command;
    }
    return NULL;
}

/* What requests lose beside best-effort work, if that is more than a fifth of what slow ones take alone, which is
   `part_us`; else 0. */
static double lost_much_us(const json_t *requests, double *part_us) {
    static const double fifth = 0.2;
    double lost = number_at(requests, "lost_us");
    *part_us = fifth * fmax(number_at(requests, "p99_us") - lost, 0);
    return lost > *part_us ? lost : 0;
}

/* That part, of the requests that lose most. 0: none lose much. */
static double much_us(const json_t *programs) {
    double much = 0, most = 0;
    size_t i;
    json_t *program;
    json_array_foreach(programs, i, program) {
        double part, lost = lost_much_us(json_object_get(program, "requests"), &part);
        if (lost > most) {
            most = lost;
            much = part;
        }
    }
    return much;
}

/* Requests lose much: by how the program shares the GPU, and what is known of the other way. */
static void put_ways(gs_text *text, const json_t *program, const json_t *status) {
    const json_t *choice = gs_status_choice(status, word_at(program, "command"));
    const json_t *mps = json_object_get(choice, "mps_us"), *slices = json_object_get(choice, "slices_us");
    double much = much_us(json_object_get(status, "programs"));
    if (much <= 0 || !choice)
        return;
    gs_text_add(text, "%8s   %s", "", word_at(choice, "why"));
    if (mps && slices && fmin(json_number_value(mps), json_number_value(slices)) > much)
        gs_text_add(text, "; WARNING: both ways are slow");
    else if (strcmp(word_at(choice, "next"), word_at(program, "sharing")) != 0)
        gs_text_add(text, "; the next start has %s", word_at(choice, "next"));
    gs_text_add(text, "\n");
}

/* The latency program whose deadline a request can miss because it must wait for so long: half of its requests need
   the rest of the time. NULL: none. */
static const json_t *find_broken(const json_t *programs, double us) {
    size_t i;
    json_t *program;
    json_array_foreach(programs, i, program) {
        const json_t *requests = json_object_get(program, "requests");
        double deadline_us = number_at(requests, "deadline_us");
        if (deadline_us > 0 && us + number_at(requests, "p50_us") > deadline_us)
            return program;
    }
    return NULL;
}

/* How long a request waits at most for kernels that cannot be stopped, one of each best-effort program under MPS. */
static double longest_wait_us(const json_t *programs) {
    double sum = 0;
    size_t i, j;
    json_t *program, *kernel;
    json_array_foreach(programs, i, program) {
        double longest = 0;
        json_array_foreach(json_object_get(program, "long_kernels"), j, kernel) {
            double us = number_at(kernel, "us");
            longest = us > longest ? us : longest;
        }
        sum += strcmp(word_at(program, "sharing"), "MPS") == 0 ? longest : 0;
    }
    return sum;
}

/* The deadline of requests, and what half of them take at most beside the longest kernels. */
static void put_deadline(gs_text *text, const json_t *requests, const json_t *programs) {
    double wait_us = longest_wait_us(programs);
    gs_text_add(text, "  deadline %.2f ms, %.0f later", number_at(requests, "deadline_us") / 1e3,
                number_at(requests, "late"));
    if (wait_us > 0)
        gs_text_add(text, ", up to %.2f ms beside the longest kernels",
                    (wait_us + number_at(requests, "p50_us")) / 1e3);
}

/* The kernels of a best-effort program that exceed the work between two waits. Without MPS they are interrupted. */
static void put_long_kernels(gs_text *text, const json_t *program, const json_t *programs) {
    size_t i;
    json_t *kernel;
    bool has_mps = strcmp(word_at(program, "sharing"), "MPS") == 0;
    json_array_foreach(json_object_get(program, "long_kernels"), i, kernel) {
        const json_t *broken = has_mps ? find_broken(programs, number_at(kernel, "us")) : NULL;
        gs_text_add(text, "%8s   %9.1f us at a time: %s", "", number_at(kernel, "us"), word_at(kernel, "name"));
        if (has_mps && word_at(kernel, "why")[0])
            gs_text_add(text, "; not stopped: %s", word_at(kernel, "why"));
        if (broken)
            gs_text_add(text, "; WARNING: breaks the deadline of %.0f %s", number_at(broken, "process"),
                        word_at(broken, "name"));
        gs_text_add(text, "\n");
    }
}

static void put_program(gs_text *text, const json_t *program, const json_t *status, const json_t *before) {
    const json_t *programs = json_object_get(status, "programs"), *old = find_same(before, "programs", program);
    double seconds = seconds_of(status, before, program, old);
    const json_t *requests = json_object_get(program, "requests"), *old_requests = json_object_get(old, "requests");
    double launches = number_at(program, "launches") + number_at(program, "graphs") - number_at(old, "launches") -
                      number_at(old, "graphs");
    bool has_mps = strcmp(word_at(program, "sharing"), "MPS") == 0;
    gs_text_add(text, "%8.0f %s %-11s %-6s %11.1f %6.0f%% %8.1f ", number_at(program, "process"),
                cell_of(word_at(program, "name"), 20).text, word_at(program, "class"), has_mps ? "MPS" : "slices",
                launches / seconds, (number_at(program, "work_ns") - number_at(old, "work_ns")) / 1e7 / seconds,
                (number_at(program, "waits") - number_at(old, "waits")) / seconds);
    if (requests)
        gs_text_add(text, "%10.1f %8.2f %8.2f",
                    (number_at(requests, "count") - number_at(old_requests, "count")) / seconds,
                    number_at(requests, "p50_us") / 1e3, number_at(requests, "p99_us") / 1e3);
    else
        gs_text_add(text, "%10s %8s %8s", "-", "-", "-");
    double part_us, lost_us = lost_much_us(requests, &part_us);
    if (lost_us > 0)
        gs_text_add(text, "  requests lose %.2f ms", lost_us / 1e3);
    if (number_at(requests, "deadline_us") > 0)
        put_deadline(text, requests, programs);
    if (number_at(program, "memory_limit_bytes") > 0)
        gs_text_add(text, "  %.0f of %.0f MiB", number_at(program, "memory_bytes") / 1048576,
                    number_at(program, "memory_limit_bytes") / 1048576);
    if (json_is_true(json_object_get(program, "is_ungated")))
        gs_text_add(text, "  (cannot wait)");
    if (number_at(program, "weight") != 100)
        gs_text_add(text, "  weight %.0f", number_at(program, "weight"));
    if (number_at(program, "most_percent") > 0)
        gs_text_add(text, "  at most %.0f%%", number_at(program, "most_percent"));
    gs_text_add(text, "\n");
    if (!requests)
        put_ways(text, program, status);
    put_long_kernels(text, program, programs);
}

static void put_programs(gs_text *text, const json_t *status, const json_t *before) {
    const json_t *programs = json_object_get(status, "programs");
    size_t i;
    json_t *program;
    if (!json_array_size(programs))
        return;
    gs_text_add(text, "\n%8s %-20s %-11s %-6s %11s %7s %8s %10s %8s %8s\n", "process", "program", "class", "by",
                "launches/s", "work", "waits/s", "requests/s", "p50 ms", "p99 ms");
    json_array_foreach(programs, i, program) {
        put_program(text, program, status, before);
    }
}

void gs_put_status(gs_text *text, const json_t *status, const json_t *before) {
    const json_t *device = json_object_get(status, "device"), *first = json_object_get(status, "first_block");
    double seconds = before ? (number_at(status, "time_ns") - number_at(before, "time_ns")) / 1e9
                            : number_at(status, "uptime_ns") / 1e9;
    size_t i;
    json_t *client;
    seconds = seconds > 1e-6 ? seconds : 1e-6;
    gs_text_add(text, "%s, up %.0f s; worker process %.0f, restarted %.0f time%s%s\n", word_at(device, "name"),
                number_at(status, "uptime_ns") / 1e9, number_at(device, "process"), number_at(device, "restarts"),
                number_at(device, "restarts") == 1 ? "" : "s",
                json_is_true(json_object_get(device, "is_down")) ? ", DOWN" : "");
    gs_text_add(text,
                "%.1f launches/s, %.1f resizes/s; arrival to first block: median %.0f us, 99%% %.0f us, most %.0f us\n",
                (number_at(status, "launches") - number_at(before, "launches")) / seconds,
                (number_at(status, "resizes") - number_at(before, "resizes")) / seconds, number_at(first, "p50_us"),
                number_at(first, "p99_us"), number_at(first, "most_us"));
    gs_text_add(text, "\n%8s %-20s %6s %4s %10s %11s %8s %8s  %s\n", "process", "client", "weight", "prio",
                "memory MiB", "launches/s", "SMs", "MiB/s", "state");
    json_array_foreach(json_object_get(status, "clients"), i, client) {
        put_client(text, client, status, before);
    }
    put_programs(text, status, before);
}

json_t *gs_status_get(const char *socket, char **text, gs_error *error) {
    json_error_t wrong;
    if (gs_status_request(socket, text, error) != GS_OK)
        return NULL;
    json_t *status = json_loads(*text, 0, &wrong);
    if (!status)
        gs_fail(error, GS_E_SYNTAX, "the daemon's status is not JSON: %s", wrong.text);
    return status;
}

static int run_status(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    gs_error error = {.code = GS_OK};
    gs_text table = gs_text_for_people(stdout);
    (void)words;
    if (options->json && options->limits)
        return gs_usage(command, "--json and --limits exclude each other: the limits are in the JSON");
    char *text = NULL;
    json_t *status = gs_status_get(options->socket, &text, &error);
    if (status && options->json)
        fputs(text, stdout);
    else if (status && options->limits)
        put_limits(&table, status);
    else if (status)
        gs_put_status(&table, status, NULL);
    if (status)
        gs_print_text(&table, GS_OK, &error);
    int code = status ? 0 : gs_report(&error);
    json_decref(status);
    free(text);
    return code;
}

const gs_command gs_command_status = {
    .name = "status",
    .summary = "Show the state of a daemon: its clients, their kernels and SMs.",
    .usage = "[--json | --limits] [options]",
    .details =
        "Rates are averages since a client or program connected; 'gridsmith top' shows those of the last second.\n",
    GS_OPTION_TABLE(struct options, option_table),
    .run = run_status,
};
