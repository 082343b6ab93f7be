/*
 * test_start_process.c: a program gets what was asked for, and nothing else of its parent; how it ends is known; and
 * nothing outlives a parent that is killed, nor do temporary folders.
 */
#define _GNU_SOURCE
#include "test.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOG_BYTES = 10000 };

static char *folder, output_path[200];

static int make_folder(void **state) {
    (void)state;
    folder = gs_folder_make(NULL);
    snprintf(output_path, sizeof output_path, "%s/output", folder ? folder : "");
    return folder ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    gs_folder_remove(folder);
    bool is_gone = access(folder, F_OK) != 0;
    free(folder);
    return is_gone ? 0 : -1;
}

/* Runs a shell command with these options, and returns its status. */
static int run_script(const char *script, gs_process_options options) {
    const char *const words[] = {"sh", "-c", script, NULL};
    gs_error error = {.code = GS_OK};
    pid_t process;
    options.words = words;
    if (gs_process_start(&options, &process, &error) != GS_OK)
        fail_msg("%s", error.message);
    return gs_process_wait(process);
}

static void expect_output(const char *script, gs_process_options options, const char *wanted) {
    options.output = output_path;
    assert_int_equal(run_script(script, options), 0);
    char *found = gs_folder_read(folder, "output", LOG_BYTES);
    assert_non_null(found);
    assert_string_equal(found, wanted);
    free(found);
}

TEST(its_end_is_reported_as_by_a_shell) {
    char words[100];
    assert_int_equal(gs_process_exit_code(run_script("exit 7", (gs_process_options){0})), 7);
    int status = run_script("kill -9 $$", (gs_process_options){0});
    assert_int_equal(gs_process_exit_code(status), 128 + SIGKILL);
    gs_process_say_end(status, words, sizeof words);
    assert_string_equal(words, "it was ended by signal 9 (Killed)");
}

TEST(it_has_the_environment_with_changes) {
    static const char *const changes[] = {"GS_SET=new", "GS_GONE", "GS_MORE=1", NULL};
    setenv("GS_SET", "old", 1);
    setenv("GS_SETTER", "kept", 1);
    setenv("GS_GONE", "here", 1);
    expect_output("echo $GS_SET $GS_SETTER ${GS_GONE-unset} $GS_MORE", (gs_process_options){.changes = changes},
                  "new kept unset 1\n");
    assert_string_equal(getenv("GS_GONE"), "here");
}

TEST(it_starts_in_a_folder) {
    char wanted[200];
    snprintf(wanted, sizeof wanted, "%s\n", folder);
    expect_output("pwd -P", (gs_process_options){.folder = folder}, wanted);
}

TEST(streams_go_where_they_should) {
    char errors[200];
    snprintf(errors, sizeof errors, "%s/errors", folder);
    assert_int_equal(gs_folder_write(folder, "input", "given\n", 6, NULL), GS_OK);
    char input[200];
    snprintf(input, sizeof input, "%s/input", folder);
    expect_output("cat; echo said >&2", (gs_process_options){.input = input}, "given\nsaid\n");
    expect_output("cat; echo said >&2", (gs_process_options){.input = input, .errors = errors}, "given\n");
    char *said = gs_folder_read(folder, "errors", LOG_BYTES);
    assert_string_equal(said, "said\n");
    free(said);
}

TEST(streams_can_be_pipes) {
    int in[2], out[2];
    char bytes[20] = "";
    assert_true(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    assert_int_equal(write(in[1], "abc", 3), 3);
    close(in[1]);
    assert_int_equal(run_script("cat; echo d >&2", (gs_process_options){.input_fd = in[0], .output_fd = out[1]}), 0);
    assert_int_equal(read(out[0], bytes, sizeof bytes), 5);
    assert_string_equal(bytes, "abcd\n");
    close(in[0]);
    close(out[0]);
    close(out[1]);
}

/* Also where the numbers of the descriptors are those that the program gets, in another order. */
TEST(it_has_the_descriptors_that_it_is_given_and_no_others) {
    static const char script[] = "cat <&3; cat <&4; for n in 5 6 7 8 9; do ! [ -e /proc/$$/fd/$n ] || echo $n; done";
    int files[2], low[2] = {-1, -1}, before[2];
    for (int i = 0; i < 2; i++) {
        before[i] = fcntl(3 + i, F_DUPFD_CLOEXEC, 10); /* whatever is open there */
        files[i] = memfd_create("test", MFD_CLOEXEC);
        assert_int_equal(pwrite(files[i], i ? "second " : "first ", i ? 7 : 6, 0), i ? 7 : 6);
        files[i] = fcntl(files[i], F_DUPFD_CLOEXEC, 10);
    }
    for (int i = 0; i < 2; i++)
        low[i] = dup3(files[i], 4 - i, O_CLOEXEC); /* the first is 4, the second 3 */
    for (int fd = 5; fd < 10; fd++)                /* whoever started the test may have left some open */
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    expect_output(script, (gs_process_options){.fds = {low[0], low[1]}, .fd_count = 2}, "first second ");
    for (int i = 0; i < 2; i++) {
        close(files[i]);
        if (before[i] >= 0)
            dup3(before[i], 3 + i, O_CLOEXEC);
        else
            close(3 + i);
        close(before[i]);
    }
}

static void ignore_signal(int number) {
    (void)number;
}

TEST(no_signals_are_blocked_and_ignored_ones_stay_ignored) {
    sigset_t some, before;
    sigemptyset(&some);
    sigaddset(&some, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &some, &before);
    void (*hangup)(int) = signal(SIGHUP, SIG_IGN), (*user)(int) = signal(SIGUSR1, ignore_signal);
    int ignored = run_script("kill -HUP $$; exit 3", (gs_process_options){0});
    int handled = run_script("kill -USR1 $$; exit 3", (gs_process_options){0});
    int blocked = run_script("kill -TERM $$; exit 3", (gs_process_options){0});
    signal(SIGHUP, hangup);
    signal(SIGUSR1, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(gs_process_exit_code(ignored), 3);
    assert_int_equal(gs_process_exit_code(handled), 128 + SIGUSR1);
    assert_int_equal(gs_process_exit_code(blocked), 128 + SIGTERM);
}

TEST(what_cannot_be_started_is_said) {
    static const char *const missing[] = {"gridsmith-is-not-here", NULL}, *const plain[] = {"true", NULL};
    gs_error error = {.code = GS_OK};
    pid_t process = -1;
    assert_int_equal(gs_process_start(&(gs_process_options){.words = missing}, &process, &error), GS_E_USAGE);
    assert_string_equal(error.message, "cannot start gridsmith-is-not-here: No such file or directory");
    assert_int_equal(process, 0);
    assert_int_equal(gs_process_try(&(gs_process_options){.words = plain, .program = folder}, &process), EACCES);
    assert_int_equal(gs_process_try(&(gs_process_options){.words = plain, .folder = "/nowhere"}, &process), ENOENT);
    assert_int_equal(gs_process_try(&(gs_process_options){.words = plain, .output = "/nowhere/x"}, &process), ENOENT);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

/* The process whose number a script wrote, which is not a child of this one. */
static int written_process(void) {
    char *text = NULL;
    for (int i = 0; i < 6000 && (!text || !strchr(text, '\n')); i++) {
        free(text);
        usleep(10000);
        text = gs_folder_read(folder, "number", LOG_BYTES);
    }
    assert_non_null(text);
    int number = atoi(text);
    free(text);
    return number;
}

TEST(after_the_time_limit_its_group_is_killed) {
    const char *const words[] = {"sh", "-c", "sleep 1000 & echo $! >number; wait", NULL};
    pid_t process;
    int status = 0;
    test_inherit_orphans();
    const gs_process_options options = {.words = words, .folder = folder, .has_own_group = true};
    assert_int_equal(gs_process_try(&options, &process), 0);
    int sleeper = written_process();
    assert_false(gs_process_wait_until(process, gs_now_ns(), &status));
    assert_int_equal(gs_process_exit_code(gs_process_kill(process, true)), 128 + SIGKILL);
    assert_true(test_orphan_ends(sleeper));
    assert_int_equal(gs_process_try(&(gs_process_options){.words = (const char *const[]){"true", NULL}}, &process), 0);
    assert_true(gs_process_wait_until(process, gs_now_ns() + 60000000000, &status));
    assert_int_equal(status, 0);
}

TEST(it_ends_with_its_parent_if_that_is_asked_for) {
    const char *const words[] = {"sleep", "1000", NULL};
    int ends[2];
    pid_t process = 0;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    test_inherit_orphans();
    pid_t parent = fork();
    if (parent == 0) {
        gs_process_try(&(gs_process_options){.words = words, .end_signal = SIGTERM}, &process);
        if (write(ends[1], &process, sizeof process) < 0)
            _exit(1);
        pause();
    }
    assert_int_equal(read(ends[0], &process, sizeof process), sizeof process);
    assert_true(process > 0);
    gs_process_kill(parent, false);
    assert_true(test_orphan_ends(process));
    close(ends[0]);
    close(ends[1]);
}

TEST(it_leads_a_session_if_that_is_asked_for) {
    expect_output("[ $(cut -d' ' -f6 /proc/$$/stat) -eq $$ ] && echo leads",
                  (gs_process_options){.has_own_session = true}, "leads\n");
}

/* A child makes temporary folders, keeps one of them, and ends by a signal. */
static pid_t end_with_folders(int number, char *kept, char *removed) {
    pid_t child = fork();
    if (child != 0)
        return child;
    setenv("TMPDIR", folder, 1);
    char *one = gs_folder_make(NULL), *other = gs_folder_make(NULL), inside[300];
    char *third = gs_folder_make_in(NULL, "kept", NULL);
    snprintf(inside, sizeof inside, "%s/inside", one);
    if (mkdir(inside, 0700) != 0 || gs_folder_write(inside, "file", "a", 1, NULL) != GS_OK ||
        gs_folder_write(one, "file", "a", 1, NULL) != GS_OK || gs_folder_write(third, "file", "a", 1, NULL) != GS_OK ||
        symlink(third, strcat(inside, "/link")) != 0)
        _exit(1);
    strcpy(removed, one);
    sprintf(kept, "%s/file", third);
    gs_folder_remove(other);
    free(other);
    raise(number);
    _exit(2);
}

TEST(signals_remove_temporary_folders) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    enum { PATH_BYTES = 200 };
    char *paths = mmap(NULL, 2 * PATH_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(paths != MAP_FAILED);
    for (size_t i = 0; i < GS_COUNT(signals); i++) {
        int status = gs_process_wait(end_with_folders(signals[i], paths, paths + PATH_BYTES));
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signals[i]);
        assert_int_equal(access(paths, F_OK), 0);
        assert_int_not_equal(access(paths + PATH_BYTES, F_OK), 0);
    }
    assert_int_equal(access(folder, F_OK), 0); /* that of the parent */
    munmap(paths, 2 * PATH_BYTES);
}

TEST_MAIN(make_folder, remove_folder)
