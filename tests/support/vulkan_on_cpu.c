// SPDX-License-Identifier: Apache-2.0
// Preloaded by ./check on Mesa's software device; it stands between ggml and Vulkan's loader.
// Buffers are not destroyed. ggml leaves descriptors in its sets that no shader reads, as Vulkan
// allows. Mesa 22.3 uses all of a set, and where a buffer is gone it ends by SIGSEGV. The memory of
// buffers is freed as always.
// Who asks whether a pass is over waits a while each time. ggml asks again and again, and would
// take one processor from the device. Stateless.
#include <dlfcn.h>
#include <string.h>

#include <vulkan/vulkan.h>

#define WAIT_NS 1000000

static void VKAPI_CALL keep(VkDevice device, VkBuffer buffer,
                            const VkAllocationCallbacks *allocator)
{
}

static VkResult VKAPI_CALL wait_a_while(VkDevice device, VkFence fence)
{
    PFN_vkWaitForFences wait = dlsym(RTLD_NEXT, "vkWaitForFences");
    VkResult result = wait(device, 1, &fence, VK_TRUE, WAIT_NS);
    return result == VK_TIMEOUT ? VK_NOT_READY : result;
}

/* NULL: the loader's own. */
static PFN_vkVoidFunction instead_of(const char *name)
{
    if (strcmp(name, "vkDestroyBuffer") == 0)
        return (PFN_vkVoidFunction)keep;
    if (strcmp(name, "vkGetFenceStatus") == 0)
        return (PFN_vkVoidFunction)wait_a_while;
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)vkGetDeviceProcAddr;
    return NULL;
}

PFN_vkVoidFunction VKAPI_CALL vkGetDeviceProcAddr(VkDevice device, const char *name)
{
    PFN_vkGetDeviceProcAddr loader = dlsym(RTLD_NEXT, "vkGetDeviceProcAddr");
    PFN_vkVoidFunction ours = instead_of(name);
    return ours ? ours : loader(device, name);
}

PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
    PFN_vkGetInstanceProcAddr loader = dlsym(RTLD_NEXT, "vkGetInstanceProcAddr");
    PFN_vkVoidFunction ours = instead_of(name);
    return ours ? ours : loader(instance, name);
}
