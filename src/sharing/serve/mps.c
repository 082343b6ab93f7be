/*
 * mps.c: MPS for the programs of `gridsmith run`, started and stopped with the daemon.
 *
 * NVIDIA's control daemon is started in its own folder, with a private pipe. A watching process stays beside it: when
 * the daemon has ended, for any reason, it tells the control daemon to quit, which waits until no program uses MPS any
 * more, and removes the folder. So programs continue when the daemon is killed, and nothing is left behind after them.
 */
#define _GNU_SOURCE
#include "daemon.h"
#include "kernels/cuda/cuda.h"
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char control[] = "nvidia-cuda-mps-control";

/* Runs the control program with an option, or with a command on its standard input. True: it succeeded. */
static bool run_control(const char *option, const char *command) {
    const char *const words[] = {control, option, NULL};
    int input[2];
    pid_t process;
    if (pipe2(input, O_CLOEXEC) != 0)
        return false;
    int failed = gs_process_try(&(gs_process_options){.words = words, .input_fd = input[0]}, &process);
    close(input[0]);
    bool is_told = !command || write(input[1], command, strlen(command)) == (ssize_t)strlen(command);
    close(input[1]);
    return !failed && gs_process_wait(process) == 0 && is_told;
}

static void set_folder(const char *folder) {
    setenv("CUDA_MPS_PIPE_DIRECTORY", folder, 1);
    setenv("CUDA_MPS_LOG_DIRECTORY", folder, 1);
}

bool gs_mps_may_start(void) {
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[1024];
    snprintf(path, sizeof path, "%s/control", folder && folder[0] ? folder : "/tmp/nvidia-mps");
    if (access(path, F_OK) == 0 || access("/dev/nvidiactl", F_OK) != 0)
        return false;
    return gs_program_find(control, path, sizeof path);
}

/* Whether a program can use the GPU by this MPS: tried in a process of its own. */
static bool serves_programs(void) {
    enum { MOST_S = 20 };
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        cu_api api;
        int device;
        bool has_context = false;
        gs_error error;
        alarm(MOST_S);
        bool works =
            gs_cuda_open(&api, &error) == GS_OK && gs_cuda_open_gpu(&api, "", &device, &has_context, &error) == GS_OK;
        _exit(works ? 0 : 1);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int gs_mps_process(int argc, char **argv) {
    int socket = GS_PROCESS_FIRST_FD;
    if (argc != 2 && argc != 3)
        return gs_code_exit(GS_E_USAGE);
    set_folder(argv[1]);
    bool is_running = run_control("-d", NULL), is_tried = argc == 3;
    char byte = is_running && (!is_tried || serves_programs()) ? 'y' : 'n';
    if (send(socket, &byte, sizeof byte, MSG_NOSIGNAL) == sizeof byte && byte == 'y')
        while (recv(socket, &byte, sizeof byte, 0) < 0 && errno == EINTR)
            ;
    if (is_running)
        run_control(NULL, "quit\n");
    gs_folder_remove(argv[1]);
    return 0;
}

static gs_code make_folder(gs_mps *mps, gs_error *error) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    bool is_short = runtime && runtime[0] == '/' && strlen(runtime) < 60;
    char *made = gs_folder_make_in(is_short ? runtime : "/tmp", "gridsmith-mps", error);
    if (!made)
        return error->code;
    snprintf(mps->folder, sizeof mps->folder, "%s", made);
    free(made);
    return GS_OK;
}

gs_code gs_mps_start(gs_mps *mps, bool is_tried, gs_error *error) {
    const char *const words[] = {"gridsmith", GS_MPS_PROCESS, mps->folder, is_tried ? "try" : NULL, NULL};
    int sockets[2];
    pid_t process;
    char byte = 'n';
    gs_code code = make_folder(mps, error);
    if (code != GS_OK)
        return code;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        return gs_fail_system(error, "make", "a socket");
    const gs_process_options options = {
        .program = gs_program_own(), .words = words, .fds = {sockets[1]}, .fd_count = 1, .has_own_session = true};
    code = gs_process_start(&options, &process, error);
    close(sockets[1]);
    mps->socket = sockets[0];
    if (code != GS_OK)
        return code;
    while (recv(mps->socket, &byte, sizeof byte, 0) < 0 && errno == EINTR)
        ;
    mps->is_started = byte == 'y';
    return mps->is_started ? GS_OK : gs_fail(error, GS_E_NO_GPU, "MPS cannot be started: %s -d failed", control);
}

void gs_mps_stop(gs_mps *mps) {
    if (mps->socket > 0)
        close(mps->socket);
    mps->socket = -1;
}
