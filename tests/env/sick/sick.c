// SPDX-License-Identifier: MIT
/*
 * A module that makes its kernel sick in a way of the caller's choice, to see whether npu-vm notices.
 * Never part of a product; it is built by test_npu_vm.sh.
 */

#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

static char *kind = "nothing";
module_param(kind, charp, 0444);
MODULE_PARM_DESC(kind, "warn, oops, bug, use-after-free, lock-order, sleep-in-atomic, leak or nothing");

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);
static DEFINE_SPINLOCK(spin);

static void sick_warn(void) { WARN(1, "sick: asked to warn\n"); }

static void sick_oops(void) { *(volatile int *)8 = 0; }

static void sick_bug(void) { BUG(); }

static void sick_use_after_free(void) {
  volatile char *byte = kmalloc(64, GFP_KERNEL);

  if (!byte) return;
  kfree((void *)byte);
  byte[3] = 1;
}

static void sick_lock_order(void) {
  mutex_lock(&first);
  mutex_lock(&second);
  mutex_unlock(&second);
  mutex_unlock(&first);

  mutex_lock(&second);
  mutex_lock(&first);
  mutex_unlock(&first);
  mutex_unlock(&second);
}

static void sick_sleep_in_atomic(void) {
  spin_lock(&spin);
  might_sleep();
  spin_unlock(&spin);
}

static void sick_leak(void) {
  void *volatile lost = kmalloc(1000, GFP_KERNEL);

  lost = NULL;
  (void)lost;
}

static const struct {
  const char *name;
  void (*act)(void);
} kinds[] = {
    {"warn", sick_warn},
    {"oops", sick_oops},
    {"bug", sick_bug},
    {"use-after-free", sick_use_after_free},
    {"lock-order", sick_lock_order},
    {"sleep-in-atomic", sick_sleep_in_atomic},
    {"leak", sick_leak},
};

static int __init sick_init(void) {
  size_t i;

  for (i = 0; i < ARRAY_SIZE(kinds); i++)
    if (!strcmp(kind, kinds[i].name)) kinds[i].act();
  return 0;
}
module_init(sick_init);

static void __exit sick_exit(void) {}
module_exit(sick_exit);

MODULE_DESCRIPTION("Makes a kernel sick, for tests of npu-vm");
MODULE_LICENSE("Dual MIT/GPL");
