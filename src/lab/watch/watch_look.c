/*
 * watch_look.c: a look at a process: its page, the stacks of its threads, and a dump of the GPU.
 *
 * The driver makes a pipe for each process, and writes a dump when a byte is written there. After that the process
 * cannot use the GPU any more, so a dump is only made if the program is to be ended.
 */
#define _GNU_SOURCE
#include "watch_look.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { STEP_MS = 50, STACK_MS = 1500, DUMP_MS = 60000, STABLE_MS = 300, STUCK_MS = 5000 };

static void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

bool gs_watched_open(gs_watched *watched, const char *folder, const char *name) {
    char path[1200];
    struct stat found;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, O_RDWR | O_CLOEXEC);
    bool is_whole = file >= 0 && fstat(file, &found) == 0 && found.st_size == (off_t)sizeof(gs_watch_page);
    void *page = is_whole ? mmap(NULL, sizeof(gs_watch_page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    if (file >= 0)
        close(file);
    if (page == MAP_FAILED)
        return false;
    *watched = (gs_watched){.page = page, .process = ((gs_watch_page *)page)->process};
    if (watched->page->magic == GS_WATCH_MAGIC && watched->page->size == sizeof(gs_watch_page))
        return true;
    gs_watched_close(watched);
    return false;
}

void gs_watched_close(gs_watched *watched) {
    if (watched->page)
        munmap(watched->page, sizeof(gs_watch_page));
    *watched = (gs_watched){0};
}

int64_t gs_watched_waits(gs_watched *watched, int64_t now_ns, int64_t *since_ns) {
    int64_t oldest = now_ns;
    char state = gs_hang_state_of(watched->process, watched->process);
    watched->has_ended = !state || state == 'Z' || state == 'X';
    if (state == 'T' || state == 't')
        watched->counted_ns = now_ns;
    for (size_t i = 0; i < GS_WATCH_THREADS; i++) {
        const gs_watch_thread *thread = &watched->page->threads[i];
        int64_t since = atomic_load(&thread->since_ns), polled = atomic_load(&thread->polled_ns);
        if (!atomic_load(&thread->thread))
            continue;
        /* A thread that polled once and went on to something else does not wait. */
        bool polls = atomic_load(&thread->polled) && now_ns - atomic_load(&thread->queried_ns) < 1000000000;
        if (atomic_load(&thread->call) && since < oldest)
            oldest = since;
        else if (polls && polled < oldest)
            oldest = polled;
    }
    *since_ns = oldest;
    return now_ns - gs_max(oldest, watched->counted_ns);
}

static gs_watch_page *copy_page(const gs_watched *watched) {
    gs_watch_page *copy = malloc(sizeof *copy);
    if (copy)
        memcpy(copy, watched->page, sizeof *copy);
    return copy;
}

gs_code gs_watched_look(gs_watched *watched, int64_t after_ns, gs_hang *hang, gs_error *error) {
    atomic_store(&watched->page->asks_all, after_ns == 0);
    uint32_t asked = atomic_fetch_add(&watched->page->asked, 1) + 1;
    for (int waited = 0; waited < STACK_MS && atomic_load(&watched->page->answered) != asked; waited += STEP_MS)
        sleep_ms(STEP_MS);
    sleep_ms(4 * STEP_MS); /* for the queries of streams */
    gs_watch_page *copy = copy_page(watched);
    if (!copy) {
        *hang = (gs_hang){.dump = {.file = -1}};
        return gs_fail_memory(error);
    }
    gs_code code = gs_hang_find(hang, copy, gs_now_ns(), after_ns, error);
    if (code == GS_OK)
        gs_hang_read_code(hang);
    return code == GS_OK ? gs_hang_judge(hang, error) : code;
}

/* ---- dumps ---- */

static bool can_read_dump(const char *path) {
    gs_dump dump;
    gs_error ignored;
    bool is_read = gs_dump_read(&dump, path, &ignored) == GS_OK;
    gs_dump_free(&dump);
    return is_read;
}

/* Waits until a dump does not grow and can be read: the driver may pause while it writes one. What has not grown for
   STUCK_MS is taken as it is. False: it is not there in time. */
static bool wait_for_dump(const char *path, int process) {
    off_t size = -1;
    int stable = 0;
    for (int waited = 0; waited < DUMP_MS; waited += STEP_MS) {
        struct stat found;
        sleep_ms(STEP_MS);
        bool is_there = stat(path, &found) == 0 && found.st_size > 0;
        stable = is_there && found.st_size == size ? stable + STEP_MS : 0;
        size = is_there ? found.st_size : -1;
        if (stable >= STUCK_MS || (stable >= STABLE_MS && can_read_dump(path)))
            return true;
        char state = gs_hang_state_of(process, process);
        if (!is_there && (!state || state == 'Z'))
            return false;
    }
    return false;
}

static gs_code give_up(gs_hang *hang, const char *why) {
    free(hang->no_dump);
    hang->no_dump = strdup(why);
    return GS_OK;
}

gs_code gs_watched_dump(const gs_watched *watched, const char *folder, gs_hang *hang, gs_error *error) {
    char pipe[1200], path[1200];
    gs_error unread = {.code = GS_OK};
    snprintf(pipe, sizeof pipe, "%s/pipe.%d", folder, watched->process);
    snprintf(path, sizeof path, "%s/core.%d", folder, watched->process);
    int file = open(pipe, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return give_up(hang, "the driver offers no dump");
    bool is_asked = write(file, "1", 1) == 1;
    close(file);
    if (!is_asked || !wait_for_dump(path, watched->process))
        return give_up(hang, "the driver wrote no dump");
    gs_code code = gs_hang_add_dump(hang, path, &unread);
    unlink(path);
    if (code == GS_E_MEMORY)
        return gs_fail_memory(error);
    if (code != GS_OK)
        return give_up(hang, unread.message);
    return gs_hang_judge(hang, error);
}
