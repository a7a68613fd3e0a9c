mod craft;
mod predict;
mod transfer;
