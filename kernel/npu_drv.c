// SPDX-License-Identifier: GPL-2.0-only
/*
 * The driver: table of ioctls, what probe and remove do on every bus.
 */
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>

#include <drm/drm_accel.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_managed.h>
#include <drm/drm_print.h>
#include <drm/drm_vma_manager.h>

#include "npu_attach.h"
#include "npu_bus.h"
#include "npu_copy.h"
#include "npu_ctx.h"
#include "npu_debugfs.h"
#include "npu_devfreq.h"
#include "npu_device.h"
#include "npu_drv.h"
#include "npu_file.h"
#include "npu_gem.h"
#include "npu_hwmon.h"
#include "npu_job.h"
#include "npu_pages.h"
#include "npu_prime.h"
#include "npu_query.h"
#include "npu_recover.h"
#include "npu_submit.h"
#include "npu_sysfs.h"
#include "npu_uring.h"
#include "npu_userptr.h"
#include "npu_vm.h"

#define NPU_DRIVER_MAJOR	1
#define NPU_DRIVER_MINOR	6

/* Calls */

/* A card that is lost answers like one that is gone. */
static int npu_check_lost(struct file *filp)
{
	struct drm_file *file = filp->private_data;

	return READ_ONCE(to_npu_device(file->minor->dev)->wedged) ? -ENODEV : 0;
}

/* A flag in the offset says how to map. npu_gem_mmap() has the last word. */
static int npu_mmap_take_flag(struct vm_area_struct *vma)
{
	const unsigned long flag = DRM_NPU_MMAP_WC >> PAGE_SHIFT;

	BUILD_BUG_ON(flag > U32_MAX);
	BUILD_BUG_ON(flag < DRM_FILE_PAGE_OFFSET_START + DRM_FILE_PAGE_OFFSET_SIZE);

	if (!(vma->vm_pgoff & flag))
		return 0;
	vma->vm_pgoff &= ~flag;
	if (vma->vm_pgoff < DRM_FILE_PAGE_OFFSET_START)
		return -EINVAL;
	vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);

	return 0;
}

static int npu_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct drm_file *file = filp->private_data;
	int ret;

	if (drm_dev_is_unplugged(file->minor->dev) || npu_check_lost(filp))
		return -ENODEV;
	ret = npu_mmap_take_flag(vma);
	if (ret)
		return ret;
	if (vma->vm_pgoff < DRM_FILE_PAGE_OFFSET_START)
		return npu_ctx_mmap_fence(file, vma);

	return drm_gem_mmap(filp, vma);
}

/*
 * DRM's own calls that make sense here. Some of the others take it for granted that a file has a
 * display master, which those of accel nodes have not, and crash: DRM_IOCTL_GET_MAGIC and
 * DRM_IOCTL_GET_UNIQUE do so (upstream/drm, patch 1).
 */
static bool npu_ioctl_is_allowed(unsigned int cmd)
{
	unsigned int nr = DRM_IOCTL_NR(cmd);

	if (nr >= DRM_COMMAND_BASE && nr < DRM_COMMAND_END)
		return true;

	switch (nr) {
	case DRM_IOCTL_NR(DRM_IOCTL_VERSION):
	case DRM_IOCTL_NR(DRM_IOCTL_GET_CAP):
	case DRM_IOCTL_NR(DRM_IOCTL_GEM_CLOSE):
	case DRM_IOCTL_NR(DRM_IOCTL_PRIME_HANDLE_TO_FD):
	case DRM_IOCTL_NR(DRM_IOCTL_PRIME_FD_TO_HANDLE):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_CREATE):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_DESTROY):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_WAIT):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_RESET):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_SIGNAL):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_QUERY):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_TRANSFER):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_EVENTFD):
#ifdef DRM_IOCTL_SET_CLIENT_NAME
	case DRM_IOCTL_NR(DRM_IOCTL_SET_CLIENT_NAME):
#endif
		return true;
	default:
		return false;
	}
}

static int npu_ioctl_check(struct file *filp, unsigned int cmd)
{
	return npu_ioctl_is_allowed(cmd) ? npu_check_lost(filp) : -EACCES;
}

static long npu_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	return npu_ioctl_check(filp, cmd) ?: drm_ioctl(filp, cmd, arg);
}

#ifdef CONFIG_COMPAT
static long npu_compat_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	return npu_ioctl_check(filp, cmd) ?: drm_compat_ioctl(filp, cmd, arg);
}
#else
#define npu_compat_ioctl NULL
#endif

static int npu_release(struct inode *inode, struct file *filp)
{
	struct drm_file *file = filp->private_data;

	npu_cache_watch_closing(to_npu_file(file));

	return drm_release(inode, filp);
}

static const struct file_operations npu_fops = {
	.owner = THIS_MODULE,
	.open = accel_open,
	.release = npu_release,
	.unlocked_ioctl = npu_ioctl,
	.compat_ioctl = npu_compat_ioctl,
	.poll = drm_poll,
	.read = drm_read,
	.llseek = noop_llseek,
	.mmap = npu_mmap,
	.show_fdinfo = drm_show_fdinfo,
	.uring_cmd = npu_uring_cmd,
	.fop_flags = FOP_UNSIGNED_OFFSET,
};

static const struct drm_ioctl_desc npu_ioctls[] = {
	DRM_IOCTL_DEF_DRV(NPU_DEV_QUERY, npu_ioctl_dev_query, 0),
	DRM_IOCTL_DEF_DRV(NPU_BO_CREATE, npu_ioctl_bo_create, 0),
	DRM_IOCTL_DEF_DRV(NPU_BO_INFO, npu_ioctl_bo_info, 0),
	DRM_IOCTL_DEF_DRV(NPU_BO_SYNC, npu_ioctl_bo_sync, 0),
	DRM_IOCTL_DEF_DRV(NPU_BO_SEAL, npu_ioctl_bo_seal, 0),
	DRM_IOCTL_DEF_DRV(NPU_BO_WAIT, npu_ioctl_bo_wait, 0),
	DRM_IOCTL_DEF_DRV(NPU_CTX_CREATE, npu_ioctl_ctx_create, 0),
	DRM_IOCTL_DEF_DRV(NPU_CTX_DESTROY, npu_ioctl_ctx_destroy, 0),
	DRM_IOCTL_DEF_DRV(NPU_CTX_QUERY, npu_ioctl_ctx_query, 0),
	DRM_IOCTL_DEF_DRV(NPU_SUBMIT, npu_ioctl_submit, 0),
	DRM_IOCTL_DEF_DRV(NPU_WAIT, npu_ioctl_wait, 0),
	DRM_IOCTL_DEF_DRV(NPU_BO_USERPTR, npu_ioctl_bo_userptr, 0),
};

/*
 * History of the interface, see also uapi/drm/npu_accel.h:
 * 1.0: devices, buffers, contexts, submission, wait
 * 1.1: DRM_NPU_QUERY_TIME; profiles have a head of 40 bytes
 * 1.2: rate_16 and rate_8 in struct drm_npu_dev_info
 * 1.3: devices that are no cards: bus and flags in struct drm_npu_dev_info, DRM_NPU_MMAP_WC,
 *	DRM_NPU_QUERY_WATCH
 * 1.4: busy_ns and card_ns in struct drm_npu_status_info
 * 1.5: files in struct drm_npu_status_info, cause in struct drm_npu_fault
 * 1.6: losses and flags in struct drm_npu_status_info, DRM_NPU_BO_LOST, read-only imports,
 *	cache_line in struct drm_npu_dev_info
 */
const struct drm_driver npu_driver = {
	.driver_features = DRIVER_COMPUTE_ACCEL | DRIVER_GEM | DRIVER_SYNCOBJ |
			   DRIVER_SYNCOBJ_TIMELINE,
	.open = npu_file_open,
	.postclose = npu_file_postclose,
	.show_fdinfo = npu_show_fdinfo,
	.ioctls = npu_ioctls,
	.num_ioctls = ARRAY_SIZE(npu_ioctls),
	.prime_handle_to_fd = npu_prime_handle_to_fd,
	.prime_fd_to_handle = npu_prime_fd_to_handle,
	.gem_prime_import = npu_prime_import,
	.gem_prime_import_sg_table = npu_prime_import_sg_table,
	.fops = &npu_fops,
	.name = "npu",
	.desc = "QNPU neural processing unit",
#ifdef NPU_HAVE_DRIVER_DATE
	.date = "20260101",
#endif
	.major = NPU_DRIVER_MAJOR,
	.minor = NPU_DRIVER_MINOR,
};

/* Probe */

static void npu_destroy_wq(struct drm_device *drm, void *wq)
{
	destroy_workqueue(wq);
}

/* The workqueue ends with the device. */
static int npu_adopt_wq(struct npu_device *npu, struct workqueue_struct *wq)
{
	return wq ? drmm_add_action_or_reset(&npu->drm, npu_destroy_wq, wq) : -ENOMEM;
}

static int npu_probe_software(struct npu_device *npu)
{
	u64 window;
	int ret;

	ret = drmm_mutex_init(&npu->drm, &npu->hw_lock);
	if (ret)
		return ret;
	INIT_LIST_HEAD(&npu->ctxs);
	init_rwsem(&npu->reset_lock);
	init_waitqueue_head(&npu->online_wait);


	npu->timeout_wq = alloc_ordered_workqueue("npu-timeout", WQ_MEM_RECLAIM);
	ret = npu_adopt_wq(npu, npu->timeout_wq);
	if (ret)
		return ret;
	INIT_WORK(&npu->event_work, npu_recover_event_work);
	INIT_DELAYED_WORK(&npu->pulse_work, npu_recover_pulse_work);
	INIT_WORK(&npu->lost_work, npu_recover_lost_work);
	npu_coredump_init(npu);

	window = npu->drm.accel->index % NPU_VA_WINDOWS * NPU_VA_WINDOW;
	npu->info.va_start = window + NPU_VA_EMPTY;
	npu->info.va_end = window + NPU_VA_WINDOW;
	npu->info.max_regions = NPU_MAX_REGIONS;
	npu->info.max_jobs = NPU_SUBMIT_MAX_JOBS;
	npu->info.max_in_flight = NPU_CTX_MAX_JOBS;

	npu_load_init(&npu->load);

	ret = npu_sysfs_init(npu);
	if (ret)
		return ret;
	ret = npu_cache_watch_init(npu);
	if (ret)
		return ret;
	ret = npu_mmu_init(npu);
	if (ret)
		return ret;

	return npu_mem_init(npu);
}

/* It can reach all memory that an entry of its page tables can name, in pieces of any size. */
static int npu_probe_dma(struct npu_device *npu)
{
	struct device *dev = npu->drm.dev;

	npu->coherent = dev_is_dma_coherent(dev);
	if (!npu->coherent)
		npu->info.flags |= DRM_NPU_INFO_NONCOHERENT;
	if (!npu->coherent)
		npu->info.cache_line = dma_get_cache_alignment();
	dma_set_max_seg_size(dev, UINT_MAX);

	return dma_set_mask_and_coherent(dev, DMA_BIT_MASK(52));
}

static void npu_probe_say(struct npu_device *npu)
{
	const struct drm_npu_dev_info *info = &npu->info;
	char memory[32] = "memory of the system";

	if (info->ddr_bytes)
		scnprintf(memory, sizeof(memory), "%llu MiB DDR", info->ddr_bytes / SZ_1M);
	drm_info(&npu->drm, "QNPU1 %s%s: %u cores, %u KiB local memory each, %s, %u queues, %u vectors\n",
		 info->bus == DRM_NPU_BUS_PCI ? "on a card" : "in the SoC",
		 npu->coherent ? "" : ", not coherent", info->cores, info->lmem_bytes / SZ_1K,
		 memory, npu_copy_user_queues(npu), npu->irq.count);
}

/**
 * npu_drv_probe - bring a device to work
 * @npu: device, its registers mapped, with what they need; drvdata of its parent
 */
int npu_drv_probe(struct npu_device *npu)
{
	int ret;

	npu->info.bus = npu->bus->kind;
	ret = npu_probe_dma(npu);
	if (ret)
		return ret;

	/* Whatever the card did for its last driver ends before it may access memory for us. */
	ret = npu_device_reset(npu);
	if (ret == -EIO)
		drm_err(&npu->drm, "all registers read as ones: it is absent, or has no power or clock\n");
	else if (ret)
		drm_err(&npu->drm, "the card does not answer a reset\n");
	if (ret)
		return ret;
	ret = npu_device_identify(npu);
	if (ret)
		return ret;
	ret = npu_probe_software(npu);
	if (ret)
		return ret;

	npu_bus_let_on(npu);
	ret = npu_irq_init(npu);
	if (ret)
		return ret;
	npu_device_start(npu);
	ret = npu_attach_init(npu);
	if (ret)
		goto err_stop;
	ret = npu_copy_init(npu);
	if (ret)
		goto err_stop;

	npu_debugfs_init(npu);
	npu_devfreq_init(npu);
	ret = npu_hwmon_init(npu);
	if (ret)
		goto err_copy;
	ret = drm_dev_register(&npu->drm, 0);
	if (ret)
		goto err_copy;

	npu_recover_pulse(npu);
	npu_probe_say(npu);

	return 0;

err_copy:
	npu_copy_fini(npu);
err_stop:
	npu_device_stop(npu);
	npu_irq_fini(npu);
	/* What an interrupt has asked for meanwhile, and what that may have found out. */
	npu_cache_watch_fini(npu);
	cancel_work_sync(&npu->event_work);
	cancel_work_sync(&npu->lost_work);
	npu_attach_fini(npu);
	npu_attach_release_dma(npu);
	return ret;
}

/**
 * npu_drv_shutdown - the system goes down: the device leaves its memory alone
 * @npu: device; it stays bound, and calls fail with -ENODEV
 */
void npu_drv_shutdown(struct npu_device *npu)
{
	cancel_delayed_work_sync(&npu->pulse_work);
	npu_recover_end(npu);
}

/**
 * npu_drv_remove - let go of a device
 * @npu: device
 *
 * Nobody is told to go away: files stay open, their calls fail with -ENODEV, unfinished jobs end
 * with -ENODEV, and mappings show harmless pages.
 */
void npu_drv_remove(struct npu_device *npu)
{
	cancel_delayed_work_sync(&npu->pulse_work);
	npu_recover_end(npu);
	drm_dev_unplug(&npu->drm);
	npu_irq_fini(npu);
	npu_cache_watch_fini(npu);
	cancel_work_sync(&npu->event_work);
	npu_copy_fini(npu);
	cancel_work_sync(&npu->lost_work);
	npu_ctx_kill_all(npu, -ENODEV);
	npu_attach_fini(npu);

	npu_coredump_fini(npu);
	npu_userptr_release_dma(npu);
	npu_prime_release_dma(npu);
	npu_pages_release_dma(npu);
	npu_mmu_release_dma(npu);
	npu_attach_release_dma(npu);
}

/* Module */

static int __init npu_init(void)
{
	int ret;

	ret = npu_job_module_init();
	if (ret)
		return ret;

	ret = npu_pci_register();
	if (ret)
		goto err_job;
	ret = npu_platform_register();
	if (ret)
		goto err_pci;

	return 0;

err_pci:
	npu_pci_unregister();
err_job:
	npu_job_module_exit();
	return ret;
}

/* Without tasks that are preempted in the kernel, RCU waits for all of them. */
#ifndef CONFIG_TASKS_RCU
#define synchronize_rcu_tasks synchronize_rcu
#endif

static void __exit npu_exit(void)
{
	npu_platform_unregister();
	npu_pci_unregister();
	npu_job_module_exit();
	/* Fences have dropped their references to the module, but may be still on their way out. */
	synchronize_rcu_tasks();
}

module_init(npu_init);
module_exit(npu_exit);

MODULE_DESCRIPTION("QNPU neural processing unit");
MODULE_LICENSE("GPL");
MODULE_SOFTDEP("pre: governor_simpleondemand");
