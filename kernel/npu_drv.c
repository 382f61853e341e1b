// SPDX-License-Identifier: GPL-2.0-only
/*
 * The driver: PCI probe and remove, table of ioctls.
 */
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/pci.h>

#include <drm/drm_accel.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_managed.h>
#include <drm/drm_print.h>

#include "npu_copy.h"
#include "npu_ctx.h"
#include "npu_debugfs.h"
#include "npu_devfreq.h"
#include "npu_device.h"
#include "npu_file.h"
#include "npu_gem.h"
#include "npu_hwmon.h"
#include "npu_job.h"
#include "npu_pages.h"
#include "npu_pm.h"
#include "npu_prime.h"
#include "npu_query.h"
#include "npu_recover.h"
#include "npu_submit.h"
#include "npu_sysfs.h"
#include "npu_uring.h"
#include "npu_userptr.h"
#include "npu_vm.h"

#define NPU_DRIVER_MAJOR	1
#define NPU_DRIVER_MINOR	2

/* Calls */

/* A card that is lost answers like one that is gone. */
static int npu_check_lost(struct file *filp)
{
	struct drm_file *file = filp->private_data;

	return READ_ONCE(to_npu_device(file->minor->dev)->wedged) ? -ENODEV : 0;
}

static int npu_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct drm_file *file = filp->private_data;

	if (drm_dev_is_unplugged(file->minor->dev) || npu_check_lost(filp))
		return -ENODEV;
	if (vma->vm_pgoff < DRM_FILE_PAGE_OFFSET_START)
		return npu_ctx_mmap_fence(file, vma);

	return drm_gem_mmap(filp, vma);
}

/*
 * DRM's own calls that make sense here. Some of the others take it for granted that a file has a
 * display master, which those of accel nodes have not, and crash: DRM_IOCTL_GET_MAGIC and
 * DRM_IOCTL_GET_UNIQUE do so. Mended by upstream/0004-drm-accel-nodes-have-no-master.patch.
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

static const struct file_operations npu_fops = {
	.owner = THIS_MODULE,
	.open = accel_open,
	.release = drm_release,
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
 */
static const struct drm_driver npu_driver = {
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

static int npu_probe_bars(struct npu_device *npu, struct pci_dev *pdev)
{
	int ret;

	ret = pcim_enable_device(pdev);
	if (ret)
		return ret;

	ret = pcim_request_all_regions(pdev, "npu");
	if (ret)
		return ret;

	if (pci_resource_len(pdev, NPU_PCI_BAR_REGS) < NPU_BAR_REGS_BYTES) {
		drm_err(&npu->drm, "BAR %u is too small\n", NPU_PCI_BAR_REGS);
		return -ENODEV;
	}

	npu->regs = pcim_iomap(pdev, NPU_PCI_BAR_REGS, NPU_BAR_REGS_BYTES);
	npu->ddr_phys = pci_resource_start(pdev, NPU_PCI_BAR_DDR);
	npu->ddr = devm_ioremap_wc(&pdev->dev, npu->ddr_phys,
				   pci_resource_len(pdev, NPU_PCI_BAR_DDR));
	if (!npu->regs || !npu->ddr)
		return -ENOMEM;

	return dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(52));
}

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
	int ret;

	ret = drmm_mutex_init(&npu->drm, &npu->hw_lock);
	if (ret)
		return ret;
	init_rwsem(&npu->reset_lock);
	init_waitqueue_head(&npu->online_wait);
	npu_fair_init(npu);

	npu->timeout_wq = alloc_ordered_workqueue("npu-timeout",
						  WQ_MEM_RECLAIM | WQ_FREEZABLE);
	ret = npu_adopt_wq(npu, npu->timeout_wq);
	if (ret)
		return ret;
	INIT_WORK(&npu->event_work, npu_recover_event_work);
	INIT_DELAYED_WORK(&npu->pulse_work, npu_recover_pulse_work);
	INIT_WORK(&npu->lost_work, npu_recover_lost_work);
	npu_coredump_init(npu);

	npu->info.va_start = NPU_VA_START;
	npu->info.va_end = NPU_VA_END;
	npu->info.max_regions = NPU_MAX_REGIONS;
	npu->info.max_jobs = NPU_SUBMIT_MAX_JOBS;
	npu->info.max_in_flight = NPU_CTX_MAX_JOBS;

	npu_load_init(&npu->load);
	ret = npu_quota_init(npu);
	if (ret)
		return ret;
	ret = npu_sysfs_init(npu);
	if (ret)
		return ret;
	ret = npu_mmu_init(npu);
	if (ret)
		return ret;

	return npu_mem_init(npu);
}

static int npu_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct npu_device *npu;
	int ret;

	npu = devm_drm_dev_alloc(&pdev->dev, &npu_driver, struct npu_device, drm);
	if (IS_ERR(npu))
		return PTR_ERR(npu);
	pci_set_drvdata(pdev, npu);

	ret = npu_probe_bars(npu, pdev);
	if (ret)
		return ret;

	/* Whatever the card did for its last driver ends before it may access memory for us. */
	ret = npu_device_reset(npu);
	if (ret) {
		drm_err(&npu->drm, "the card does not answer a reset\n");
		return ret;
	}
	ret = npu_device_identify(npu);
	if (ret)
		return ret;
	ret = npu_probe_software(npu);
	if (ret)
		return ret;

	pci_set_master(pdev);
	ret = npu_irq_init(npu);
	if (ret)
		return ret;
	npu_device_start(npu);
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

	pci_save_state(pdev);
	npu_recover_pulse(npu);

	drm_info(&npu->drm, "QNPU1: %u cores, %u KiB local memory each, %llu MiB DDR, %u queues, %u vectors\n",
		 npu->info.cores, npu->info.lmem_bytes / SZ_1K, npu->info.ddr_bytes / SZ_1M,
		 npu_copy_user_queues(npu), npu->irq.count);

	return 0;

err_copy:
	npu_copy_fini(npu);
err_stop:
	npu_device_stop(npu);
	npu_irq_fini(npu);
	/* What an interrupt has asked for meanwhile, and what that may have found out. */
	cancel_work_sync(&npu->event_work);
	cancel_work_sync(&npu->lost_work);
	return ret;
}

/*
 * Nobody is told to go away: files stay open, their calls fail with -ENODEV, unfinished jobs end
 * with -ENODEV, and mappings show harmless pages.
 */
static void npu_remove(struct pci_dev *pdev)
{
	struct npu_device *npu = pci_get_drvdata(pdev);

	cancel_delayed_work_sync(&npu->pulse_work);
	npu_recover_end(npu);
	drm_dev_unplug(&npu->drm);
	npu_irq_fini(npu);
	cancel_work_sync(&npu->event_work);
	npu_copy_fini(npu);
	cancel_work_sync(&npu->lost_work);
	npu_ctx_kill_all(npu, -ENODEV);
	npu_fair_fini(npu);
	npu_coredump_fini(npu);
	npu_userptr_release_dma(npu);
	npu_prime_release_dma(npu);
	npu_pages_release_dma(npu);
}

static void npu_shutdown(struct pci_dev *pdev)
{
	npu_remove(pdev);
}

static const struct pci_device_id npu_pci_ids[] = {
	{ PCI_DEVICE(NPU_PCI_VENDOR_ID, NPU_PCI_DEVICE_ID) },
	{ }
};
MODULE_DEVICE_TABLE(pci, npu_pci_ids);

static struct pci_driver npu_pci_driver = {
	.name = "npu",
	.id_table = npu_pci_ids,
	.probe = npu_probe,
	.remove = npu_remove,
	.shutdown = npu_shutdown,
	.err_handler = &npu_err_handler,
	.dev_groups = npu_sysfs_groups,
	.driver.pm = pm_sleep_ptr(&npu_pm_ops),
};

static int __init npu_init(void)
{
	int ret;

	ret = npu_job_module_init();
	if (ret)
		return ret;

	ret = pci_register_driver(&npu_pci_driver);
	if (ret)
		npu_job_module_exit();

	return ret;
}

/* Without tasks that are preempted in the kernel, RCU waits for all of them. */
#ifndef CONFIG_TASKS_RCU
#define synchronize_rcu_tasks synchronize_rcu
#endif

static void __exit npu_exit(void)
{
	pci_unregister_driver(&npu_pci_driver);
	npu_job_module_exit();
	/* Fences have dropped their references to the module, but may be still on their way out. */
	synchronize_rcu_tasks();
}

module_init(npu_init);
module_exit(npu_exit);

MODULE_DESCRIPTION("QNPU neural processing unit");
MODULE_LICENSE("GPL");
MODULE_SOFTDEP("pre: governor_simpleondemand");
