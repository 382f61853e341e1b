/* SPDX-License-Identifier: MIT */
/* Processes of users without privileges: they do something, say how it went, and keep what they have until the end. */
#ifndef NPU_USERS_H
#define NPU_USERS_H

#include <stdbool.h>
#include <sys/types.h>

#define ALICE 4001
#define BOB 4002

struct process {
  pid_t pid;
  int socket; /* the other end is what the function gets */
};

/* In functions of processes: what does not hold ends them, and the test, with the line. */
#define CHECK(what) \
  if (!(what)) return __LINE__

/* Runs `function` as that user, without the caller's file, until it returns; the process stays. */
void process_start(struct process *process, unsigned uid, int file, int (*function)(int socket));
/* In a function of a process: it went well so far; go on when the test says process_go_on(). */
bool pauses(int socket);
void process_go_on(struct process *process); /* until it pauses again, or returns */
void process_kill(struct process *process);
void as_user(unsigned uid, int file, int (*function)(int socket));

#endif
