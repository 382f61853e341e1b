// SPDX-License-Identifier: GPL-2.0-only
/* The driver: ioctl table, and the parts of probe and remove that all buses share. */
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/platform_device.h>

#include <drm/drm_accel.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_managed.h>
#include <drm/drm_print.h>
#include <drm/drm_vma_manager.h>

#include "qnpu_attach.h"
#include "qnpu_bus.h"
#include "qnpu_copy.h"
#include "qnpu_ctx.h"
#include "qnpu_debugfs.h"
#include "qnpu_devfreq.h"
#include "qnpu_device.h"
#include "qnpu_file.h"
#include "qnpu_gem.h"
#include "qnpu_hwmon.h"
#include "qnpu_ioctl.h"
#include "qnpu_job.h"
#include "qnpu_pages.h"
#include "qnpu_prime.h"
#include "qnpu_query.h"
#include "qnpu_recover.h"
#include "qnpu_submit.h"
#include "qnpu_uring.h"
#include "qnpu_userptr.h"
#include "qnpu_vm.h"

/* A lost device answers calls like a removed one. */
static int qnpu_check_lost(struct file *filp)
{
	struct drm_file *file = filp->private_data;

	return READ_ONCE(to_qnpu_device(file->minor->dev)->wedged) ? -ENODEV : 0;
}

static int qnpu_mmap(struct file *filp, struct vm_area_struct *vma)
{
	const unsigned long flag = DRM_NPU_MMAP_WC >> PAGE_SHIFT;
	struct drm_file *file = filp->private_data;

	BUILD_BUG_ON(flag > U32_MAX);
	BUILD_BUG_ON(flag < DRM_FILE_PAGE_OFFSET_START + DRM_FILE_PAGE_OFFSET_SIZE);

	if (drm_dev_is_unplugged(file->minor->dev) || qnpu_check_lost(filp))
		return -ENODEV;
	/* A flag in the offset requests an uncached mapping; qnpu_gem_mmap() decides. */
	if (vma->vm_pgoff & flag) {
		vma->vm_pgoff &= ~flag;
		if (vma->vm_pgoff < DRM_FILE_PAGE_OFFSET_START)
			return -EINVAL;
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	}
	if (vma->vm_pgoff < DRM_FILE_PAGE_OFFSET_START)
		return qnpu_ctx_mmap_fence(file, vma);

	return drm_gem_mmap(filp, vma);
}

static int qnpu_ioctl_check(struct file *filp, unsigned int cmd)
{
	int ret = qnpu_check_lost(filp);

	ret = ret ?: qnpu_ioctl_filter(cmd);

	return ret;
}

static long qnpu_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	return qnpu_ioctl_check(filp, cmd) ?: drm_ioctl(filp, cmd, arg);
}

#ifdef CONFIG_COMPAT
static long qnpu_compat_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	return qnpu_ioctl_check(filp, cmd) ?: drm_compat_ioctl(filp, cmd, arg);
}
#else
#define qnpu_compat_ioctl NULL
#endif

static const struct file_operations qnpu_fops = {
	.owner = THIS_MODULE,
	.open = accel_open,
	.release = drm_release,
	.unlocked_ioctl = qnpu_ioctl,
	.compat_ioctl = qnpu_compat_ioctl,
	.poll = drm_poll,
	.read = drm_read,
	.llseek = noop_llseek,
	.mmap = qnpu_mmap,
	.show_fdinfo = drm_show_fdinfo,
	.uring_cmd = qnpu_uring_cmd,
	.fop_flags = FOP_UNSIGNED_OFFSET,
};

static const struct drm_ioctl_desc qnpu_ioctls[] = {
	DRM_IOCTL_DEF_DRV(NPU_DEV_QUERY, qnpu_ioctl_dev_query, 0),
	DRM_IOCTL_DEF_DRV(NPU_BO_CREATE, qnpu_ioctl_bo_create, 0),
	DRM_IOCTL_DEF_DRV(NPU_BO_INFO, qnpu_ioctl_bo_info, 0),
	DRM_IOCTL_DEF_DRV(NPU_BO_SYNC, qnpu_ioctl_bo_sync, 0),
	DRM_IOCTL_DEF_DRV(NPU_BO_SEAL, qnpu_ioctl_bo_seal, 0),
	DRM_IOCTL_DEF_DRV(NPU_BO_WAIT, qnpu_ioctl_bo_wait, 0),
	DRM_IOCTL_DEF_DRV(NPU_CTX_CREATE, qnpu_ioctl_ctx_create, 0),
	DRM_IOCTL_DEF_DRV(NPU_CTX_DESTROY, qnpu_ioctl_ctx_destroy, 0),
	DRM_IOCTL_DEF_DRV(NPU_CTX_QUERY, qnpu_ioctl_ctx_query, 0),
	DRM_IOCTL_DEF_DRV(NPU_SUBMIT, qnpu_ioctl_submit, 0),
	DRM_IOCTL_DEF_DRV(NPU_WAIT, qnpu_ioctl_wait, 0),
	DRM_IOCTL_DEF_DRV(NPU_BO_USERPTR, qnpu_ioctl_bo_userptr, 0),
};

/* uapi/drm/npu_accel.h has the history of the interface. */
const struct drm_driver qnpu_driver = {
	.driver_features = DRIVER_COMPUTE_ACCEL | DRIVER_GEM | DRIVER_SYNCOBJ |
			   DRIVER_SYNCOBJ_TIMELINE,
	.open = qnpu_file_open,
	.postclose = qnpu_file_postclose,
	.show_fdinfo = qnpu_show_fdinfo,
	.ioctls = qnpu_ioctls,
	.num_ioctls = ARRAY_SIZE(qnpu_ioctls),
	.prime_handle_to_fd = qnpu_prime_handle_to_fd,
	.prime_fd_to_handle = qnpu_prime_fd_to_handle,
	.gem_prime_import = qnpu_prime_import,
	.gem_prime_import_sg_table = qnpu_prime_import_sg_table,
	.fops = &qnpu_fops,
	.name = "qnpu",
	.desc = "QNPU neural processing unit",
#ifdef QNPU_HAVE_DRIVER_DATE
	.date = "20260101",
#endif
	.major = 1,
	.minor = 0,
};

/* Probe */

static void qnpu_destroy_wq(struct drm_device *drm, void *wq)
{
	destroy_workqueue(wq);
}

static int qnpu_probe_software(struct qnpu_device *npu)
{
	struct device *dev = npu->drm.dev;
	u64 window;
	int ret;

	npu->coherent = dev_is_dma_coherent(dev);
	if (!npu->coherent) {
		npu->info.flags |= DRM_NPU_INFO_NONCOHERENT;
		npu->info.cache_line = dma_get_cache_alignment();
	}
	/* Page table entries hold 52 bits of an address. */
	ret = dma_set_mask_and_coherent(dev, DMA_BIT_MASK(52));
	if (ret)
		return ret;
	dma_set_max_seg_size(dev, UINT_MAX);

	ret = drmm_mutex_init(&npu->drm, &npu->hw_lock);
	if (ret)
		return ret;
	INIT_LIST_HEAD(&npu->ctxs);
	init_rwsem(&npu->reset_lock);
	init_waitqueue_head(&npu->online_wait);

	npu->timeout_wq = alloc_ordered_workqueue("qnpu-timeout", WQ_MEM_RECLAIM);
	if (!npu->timeout_wq)
		return -ENOMEM;
	ret = drmm_add_action_or_reset(&npu->drm, qnpu_destroy_wq, npu->timeout_wq);
	if (ret)
		return ret;
	INIT_WORK(&npu->event_work, qnpu_recover_event_work);
	INIT_DELAYED_WORK(&npu->pulse_work, qnpu_recover_pulse_work);
	INIT_WORK(&npu->lost_work, qnpu_recover_lost_work);
	qnpu_coredump_init(npu);

	window = npu->drm.accel->index % QNPU_VA_WINDOWS * QNPU_VA_WINDOW;
	npu->info.va_start = window + QNPU_VA_EMPTY;
	npu->info.va_end = window + QNPU_VA_WINDOW;
	npu->info.bus = npu->bus->kind;
	npu->info.max_regions = NPU_MAX_REGIONS;
	npu->info.max_jobs = QNPU_SUBMIT_MAX_JOBS;
	npu->info.max_in_flight = QNPU_CTX_MAX_JOBS;

	return qnpu_mmu_init(npu) ?: qnpu_mem_init(npu);
}

static void qnpu_probe_say(struct qnpu_device *npu)
{
	const struct drm_npu_dev_info *info = &npu->info;
	char memory[32] = "memory of the system";

	if (info->ddr_bytes)
		scnprintf(memory, sizeof(memory), "%llu MiB DDR", info->ddr_bytes / SZ_1M);
	drm_info(&npu->drm, "QNPU1 %s%s: %u cores, %u KiB local memory each, %s, %u queues, %u vectors\n",
		 info->bus == DRM_NPU_BUS_PCI ? "on a card" : "in the SoC",
		 npu->coherent ? "" : ", not coherent", info->cores, info->lmem_bytes / SZ_1K,
		 memory, qnpu_copy_user_queues(npu), npu->irq.count);
}

/* Start the device; after a failure qnpu_drv_remove() stops it. */
static int qnpu_probe_start(struct qnpu_device *npu)
{
	int ret;

	qnpu_bus_let_on(npu);
	ret = qnpu_irq_init(npu);
	if (ret)
		return ret;
	qnpu_device_start(npu);
	ret = qnpu_copy_init(npu);
	if (ret)
		return ret;
	qnpu_debugfs_init(npu);
	qnpu_devfreq_init(npu);

	return qnpu_hwmon_init(npu) ?: drm_dev_register(&npu->drm, 0);
}

/* The part of probe that all buses share. Registers are mapped and powered. */
int qnpu_drv_probe(struct qnpu_device *npu)
{
	int ret;

	/* Stops DMA left over from an earlier driver, before bus mastering is enabled. */
	ret = qnpu_device_reset(npu);
	if (ret == -EIO)
		drm_err(&npu->drm, "all registers read as ones: it is absent, or has no power or clock\n");
	else if (ret)
		drm_err(&npu->drm, "reset timed out\n");
	if (ret)
		return ret;
	ret = qnpu_device_identify(npu) ?: qnpu_probe_software(npu) ?: qnpu_attach_init(npu);
	if (ret)
		return ret;

	ret = qnpu_probe_start(npu);
	if (ret) {
		qnpu_drv_remove(npu);
		return ret;
	}
	qnpu_recover_pulse(npu);
	qnpu_probe_say(npu);

	return 0;
}

/* System shutdown: DMA stops, the device stays bound, and calls return -ENODEV. */
void qnpu_drv_shutdown(struct qnpu_device *npu)
{
	cancel_delayed_work_sync(&npu->pulse_work);
	qnpu_recover_end(npu);
}

/*
 * Unbind a device, also after a failed probe. Files stay open: calls fail and jobs end with
 * -ENODEV, and mappings show dummy pages.
 */
void qnpu_drv_remove(struct qnpu_device *npu)
{
	qnpu_drv_shutdown(npu);
	/* A device whose probe failed has no users. */
	if (npu->drm.registered)
		drm_dev_unplug(&npu->drm);
	qnpu_irq_fini(npu);
	cancel_work_sync(&npu->event_work);
	qnpu_copy_fini(npu);
	cancel_work_sync(&npu->lost_work);
	qnpu_ctx_kill_all(npu, -ENODEV);
	qnpu_attach_fini(npu);

	qnpu_coredump_fini(npu);
	qnpu_gem_release_dma(npu);
	qnpu_pages_release_dma(npu);
	qnpu_mmu_release_dma(npu);
}

/* Module */

static int __init qnpu_init(void)
{
	int ret;

	ret = qnpu_job_module_init();
	if (ret)
		return ret;
	ret = pci_register_driver(&qnpu_pci_driver);
	if (ret)
		goto err_job;
	if (IS_ENABLED(CONFIG_OF))
		ret = platform_driver_register(&qnpu_platform_driver);
	if (ret)
		goto err_pci;

	return 0;

err_pci:
	pci_unregister_driver(&qnpu_pci_driver);
err_job:
	qnpu_job_module_exit();
	return ret;
}

/* Without kernel preemption plain RCU waits for all tasks. */
#ifndef CONFIG_TASKS_RCU
#define synchronize_rcu_tasks synchronize_rcu
#endif

static void __exit qnpu_exit(void)
{
	if (IS_ENABLED(CONFIG_OF))
		platform_driver_unregister(&qnpu_platform_driver);
	pci_unregister_driver(&qnpu_pci_driver);
	qnpu_job_module_exit();
	/* Fences have dropped their module references, but may still be executing in the module. */
	synchronize_rcu_tasks();
}

module_init(qnpu_init);
module_exit(qnpu_exit);

MODULE_DESCRIPTION("QNPU neural processing unit");
MODULE_LICENSE("GPL");
MODULE_SOFTDEP("pre: governor_simpleondemand");
