/*
 * mps.c: MPS for the programs of `gridsmith run`, started and stopped with the daemon.
 *
 * NVIDIA's control daemon is started in its own folder, with a private pipe. A watching process stays beside it: when
 * the daemon has ended, for any reason, it tells the control daemon to quit, which waits until no program uses MPS any
 * more, and removes the folder. So programs continue when the daemon is killed, and nothing is left behind after them.
 */
#define _GNU_SOURCE
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char control[] = "nvidia-cuda-mps-control";

/* Runs the control program with an option, or with a command on its standard input. True: it succeeded. */
static bool run_control(const char *option, const char *command) {
    int input[2], status = -1;
    if (pipe2(input, O_CLOEXEC) != 0)
        return false;
    pid_t process = fork();
    if (process == 0) {
        dup2(input[0], STDIN_FILENO);
        execlp(control, control, option, NULL);
        _exit(127);
    }
    close(input[0]);
    bool is_told = !command || write(input[1], command, strlen(command)) == (ssize_t)strlen(command);
    close(input[1]);
    while (process > 0 && waitpid(process, &status, 0) < 0 && errno == EINTR)
        ;
    return process > 0 && is_told && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)status, (void)kind, (void)where;
    remove(path);
    return 0;
}

/* The watching process: reports whether the control daemon was started, and waits for the daemon's end. */
static void stand_by(int socket, const char *folder) {
    setsid();                                /* Ctrl-C is for the daemon, */
    close_range(3, (unsigned)socket - 1, 0); /* and so are its lock and its socket */
    close_range((unsigned)socket + 1, ~0u, 0);
    char byte = run_control("-d", NULL) ? 'y' : 'n';
    if (send(socket, &byte, sizeof byte, MSG_NOSIGNAL) == sizeof byte && byte == 'y')
        while (recv(socket, &byte, sizeof byte, 0) < 0 && errno == EINTR)
            ;
    if (byte == 'y')
        run_control(NULL, "quit\n");
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    _exit(0);
}

static gs_code make_folder(gs_mps *mps, gs_error *error) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    snprintf(mps->folder, sizeof mps->folder, "%s/gridsmith-mps-XXXXXX",
             runtime && runtime[0] == '/' && strlen(runtime) < 60 ? runtime : "/tmp");
    if (!mkdtemp(mps->folder))
        return gs_fail_system(error, "make", mps->folder);
    setenv("CUDA_MPS_PIPE_DIRECTORY", mps->folder, 1); /* the worker is a client, too */
    setenv("CUDA_MPS_LOG_DIRECTORY", mps->folder, 1);
    return GS_OK;
}

gs_code gs_mps_start(gs_mps *mps, gs_error *error) {
    int sockets[2];
    char byte = 'n';
    gs_code code = make_folder(mps, error);
    if (code != GS_OK)
        return code;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        return gs_fail_system(error, "make", "a socket");
    pid_t process = fork();
    if (process == 0) {
        close(sockets[0]);
        stand_by(sockets[1], mps->folder);
    }
    close(sockets[1]);
    mps->socket = sockets[0];
    while (process > 0 && recv(mps->socket, &byte, sizeof byte, 0) < 0 && errno == EINTR)
        ;
    return byte == 'y' ? GS_OK : gs_fail(error, GS_E_NO_GPU, "MPS cannot be started: %s -d failed", control);
}

void gs_mps_stop(gs_mps *mps) {
    if (mps->socket > 0)
        close(mps->socket);
    mps->socket = -1;
}
