mod craft;
mod hostile;
mod predict;
mod transfer;
