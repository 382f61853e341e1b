/* SPDX-License-Identifier: MIT */
#include "tests/guest/driver/users.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

bool pauses(int socket) {
  int line = 0;

  return write(socket, &line, sizeof(line)) == sizeof(line) && read(socket, &line, sizeof(line)) == sizeof(line);
}

static void expect_no_line(struct process *process) {
  int line;

  assert_int_equal(read(process->socket, &line, sizeof(line)), sizeof(line));
  if (line) fail_msg("process %d: line %d", (int)process->pid, line);
}

void process_go_on(struct process *process) {
  int line = 0;

  assert_int_equal(write(process->socket, &line, sizeof(line)), sizeof(line));
  expect_no_line(process);
}

void process_start(struct process *process, unsigned uid, int file, int (*function)(int socket)) {
  int sockets[2];

  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  process->pid = fork();
  if (!process->pid) {
    int ret;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(file); /* the file is root's */
    if (setgid(uid) || setuid(uid)) _exit(99);
    ret = function(sockets[1]);
    if (write(sockets[1], &ret, sizeof(ret)) != sizeof(ret)) _exit(98);
    for (;;) pause();
  }
  close(sockets[1]);
  process->socket = sockets[0];
  expect_no_line(process);
}

void process_kill(struct process *process) {
  int status;

  kill(process->pid, SIGKILL);
  assert_int_equal(waitpid(process->pid, &status, 0), process->pid);
  close(process->socket);
}

void as_user(unsigned uid, int file, int (*function)(int socket)) {
  struct process process;

  process_start(&process, uid, file, function);
  process_kill(&process);
}
