/* SPDX-License-Identifier: Apache-2.0
 *
 * ggml's Vulkan backend names types of VK_EXT_layer_settings, which Debian 12's Vulkan headers
 * (1.3.239) lack. This is included before all else when ggml is built (tools/setup.sh) and gives it
 * types of the same layout. The backend enables the extension only where a validation layer has
 * it. */
#if defined(__cplusplus) && __has_include(<vulkan/vulkan_core.h>)
#include <vulkan/vulkan_core.h>
#ifndef VK_EXT_layer_settings
#include <vector>

namespace vk
{
enum class LayerSettingTypeEXT : int32_t { eBool32 = 0 };

struct LayerSettingEXT {
    const char *layer, *name;
    LayerSettingTypeEXT type;
    uint32_t n_values;
    const void *values;
};

struct LayerSettingsCreateInfoEXT {
    int32_t type = 1000496000; /* VK_STRUCTURE_TYPE_LAYER_SETTINGS_CREATE_INFO_EXT */
    const void *next = nullptr;
    uint32_t n_settings;
    const LayerSettingEXT *settings;

    explicit LayerSettingsCreateInfoEXT(const std::vector<LayerSettingEXT> &all)
        : n_settings(static_cast<uint32_t>(all.size())), settings(all.data())
    {
    }
};
} // namespace vk
#endif
#endif
