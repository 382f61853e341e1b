// SPDX-License-Identifier: GPL-2.0-only
/*
 * Open files: their contexts and their address space.
 */
#include <linux/slab.h>

#include "npu_ctx.h"
#include "npu_device.h"
#include "npu_file.h"
#include "npu_job.h"
#include "npu_vm.h"

/**
 * npu_file_open - a process opens the node
 * @drm: device
 * @file: the new file
 */
int npu_file_open(struct drm_device *drm, struct drm_file *file)
{
	struct npu_file *nfile;

	if (READ_ONCE(to_npu_device(drm)->wedged))
		return -ENODEV;

	nfile = kzalloc_obj(*nfile, NPU_GFP_USER);
	if (!nfile)
		return -ENOMEM;

	nfile->npu = to_npu_device(drm);

	mutex_init(&nfile->lock);
	xa_init_flags(&nfile->ctxs, XA_FLAGS_ALLOC1);
	npu_cache_watch_opened(nfile);
	file->driver_priv = nfile;

	return 0;
}

/**
 * npu_file_postclose - the last reference to a file is gone
 * @drm: device
 * @file: file, its buffers already released
 */
void npu_file_postclose(struct drm_device *drm, struct drm_file *file)
{
	struct npu_file *nfile = to_npu_file(file);

	npu_ctx_close(file);

	if (nfile->vm)
		npu_vm_wait_released(nfile->vm);
	npu_vm_put(nfile->vm);

	mutex_destroy(&nfile->lock);
	kfree(nfile);
}

/**
 * npu_file_vm - address space of a file
 * @file: file
 *
 * Made when first asked for: a file that only asks questions needs none.
 */
struct npu_vm *npu_file_vm(struct drm_file *file)
{
	struct npu_file *nfile = to_npu_file(file);
	struct npu_vm *vm = READ_ONCE(nfile->vm);

	if (vm)
		return vm;

	mutex_lock(&nfile->lock);
	vm = nfile->vm;
	if (!vm) {
		vm = npu_vm_create(nfile->npu);
		if (!IS_ERR(vm))
			WRITE_ONCE(nfile->vm, vm);
	}
	mutex_unlock(&nfile->lock);

	return vm;
}
