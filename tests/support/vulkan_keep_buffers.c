// SPDX-License-Identifier: Apache-2.0
// Preloaded by ./check on Mesa's software device: Vulkan's buffers are not destroyed. ggml leaves
// descriptors in its sets that no shader reads, as Vulkan allows. Mesa 22.3 uses them all the same
// when it binds a set, and where their buffer is gone it ends by SIGSEGV. The buffers' memory is
// freed as always. Stateless, apart from the loader's functions.
#include <dlfcn.h>
#include <string.h>

#include <vulkan/vulkan.h>

static void VKAPI_CALL keep(VkDevice device, VkBuffer buffer, const VkAllocationCallbacks *alloc) {}

PFN_vkVoidFunction VKAPI_CALL vkGetDeviceProcAddr(VkDevice device, const char *name)
{
    PFN_vkGetDeviceProcAddr loader = dlsym(RTLD_NEXT, "vkGetDeviceProcAddr");
    return strcmp(name, "vkDestroyBuffer") == 0 ? (PFN_vkVoidFunction)keep : loader(device, name);
}

/* ggml asks it for the function above, too. */
PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
    PFN_vkGetInstanceProcAddr loader = dlsym(RTLD_NEXT, "vkGetInstanceProcAddr");
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)vkGetDeviceProcAddr;
    return strcmp(name, "vkDestroyBuffer") == 0 ? (PFN_vkVoidFunction)keep : loader(instance, name);
}
