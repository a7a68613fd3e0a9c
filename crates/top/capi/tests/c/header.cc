// The header is C++ too.

#include <wirespeed.h>

int main() {
    ws_config config = ws_config();
    config.size = sizeof config;
    ws_stack stack = ws_stack_new(&config);
    return stack > 0 && ws_stack_free(stack) == 0 ? 0 : 1;
}
