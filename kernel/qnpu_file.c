// SPDX-License-Identifier: GPL-2.0-only
/*
 * Open files: their contexts and their address space.
 */
#include <linux/export.h>
#include <linux/slab.h>

#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_file.h"
#include "qnpu_job.h"
#include "qnpu_vm.h"

struct blocking_notifier_head qnpu_file_notifiers =
	BLOCKING_NOTIFIER_INIT(qnpu_file_notifiers);
EXPORT_SYMBOL_GPL(qnpu_file_notifiers);

/* drm_driver.open */
int qnpu_file_open(struct drm_device *drm, struct drm_file *file)
{
	struct qnpu_file *nfile;

	if (READ_ONCE(to_qnpu_device(drm)->wedged))
		return -ENODEV;

	nfile = kzalloc_obj(*nfile, QNPU_GFP_USER);
	if (!nfile)
		return -ENOMEM;

	nfile->npu = to_qnpu_device(drm);
	mutex_init(&nfile->lock);
	xa_init_flags(&nfile->ctxs, XA_FLAGS_ALLOC1);
	file->driver_priv = nfile;

	return 0;
}

/* drm_driver.postclose: the file's buffers are already released. */
void qnpu_file_postclose(struct drm_device *drm, struct drm_file *file)
{
	struct qnpu_file *nfile = to_qnpu_file(file);

	qnpu_ctx_close(file);
	if (nfile->vm)
		qnpu_vm_wait_released(nfile->vm);
	qnpu_vm_put(nfile->vm);
	mutex_destroy(&nfile->lock);
	kfree(nfile);
}

/* Returns a file's address space, created on first use: queries need none. */
struct qnpu_vm *qnpu_file_vm(struct drm_file *file)
{
	struct qnpu_file *nfile = to_qnpu_file(file);
	struct qnpu_vm *vm = READ_ONCE(nfile->vm);

	if (vm)
		return vm;

	mutex_lock(&nfile->lock);
	vm = nfile->vm;
	if (!vm) {
		vm = qnpu_vm_create(nfile->npu);
		if (!IS_ERR(vm))
			WRITE_ONCE(nfile->vm, vm);
	}
	mutex_unlock(&nfile->lock);

	return vm;
}
